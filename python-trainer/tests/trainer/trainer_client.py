# SPDX-License-Identifier: Apache-2.0
"""A client of a trainer that runs in the test's own process, over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import torch
from compute_device import DEVICE
from trainer_kit import (
    PROMPT,
    configure_request,
    until_configured,
)
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_store.store import ObjectStore
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.service.server import ServerConfig, TrainerServer, start_server


@dataclass
class Trainer:
    """A client of one trainer process (here: in this process)."""

    stub: rpc.TrainerServiceStub
    server: TrainerServer
    run_path: Path

    async def configure(self, spec: jobs.JobSpec, epoch: int = 1, uid: str = "uid-1") -> wire.ConfigureResponse:
        return await until_configured(self.stub, configure_request(spec, self.run_path, epoch, uid))

    async def train(
        self, manifest: bytes, epoch: int = 1, dropped: Sequence[jobs.DroppedEpisode] = ()
    ) -> wire.TrainResult:
        """The result, once the step's checkpoint is there, too."""
        kinds, request = [], wire.TrainStepRequest(epoch=epoch, manifest=manifest, dropped=dropped)
        async for response in self.stub.TrainStep(request):
            kinds.append(response)
        assert [kind.WhichOneof("kind") for kind in kinds[:-1]] == ["progress"] * (len(kinds) - 1)
        await self.server.state.committed()
        return kinds[-1].result

    async def evaluate(self, manifest: bytes, epoch: int = 1) -> wire.EvaluateResult:
        request = wire.EvaluateRequest(epoch=epoch, manifest=manifest)
        *before, last = [response async for response in self.stub.Evaluate(request)]
        assert all(response.WhichOneof("kind") == "progress" for response in before)
        return last.result


async def start(
    nats_url: str, run_path: Path, modules: ModuleRules | None = None, store: ObjectStore | None = None
) -> tuple[Trainer, grpc.aio.Channel]:
    backend = LocalBackend(DEVICE, torch.float32)
    config = ServerConfig("127.0.0.1", 0, nats_url, backend, modules=modules or ModuleRules(), object_store=store)
    server = await start_server(config)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
    return Trainer(rpc.TrainerServiceStub(channel), server, run_path), channel


async def probability(trainer: Trainer, token: int) -> float:
    request = wire.EvaluateLogProbsRequest(rows=[wire.TokenRow(token_ids=[*PROMPT, token])], temperature=1)
    answer = await trainer.stub.EvaluateLogProbs(request)
    return float(torch.tensor(answer.rows[0].logprobs[-1]).exp())


async def refused(call: grpc.aio.UnaryUnaryCall | asyncio.Future) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value
