# SPDX-License-Identifier: Apache-2.0
"""Jobs whose weights engines fetch: the trainer says where, and refuses what it cannot do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import aiohttp
import grpc
import pytest
import torch
from compute_device import DEVICE
from trainer_client import Trainer
from trainer_kit import Sampler, Stream, configure_request, group, grpo_spec, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.service.server import ServerConfig, start_server


def streamed(model_path: Path) -> jobs.JobSpec:
    spec = grpo_spec(model_path)
    spec.weights.transport.stream.SetInParent()
    return spec


async def serve_weights(nats_url: str, run_path: Path) -> tuple[Trainer, grpc.aio.Channel]:
    backend = LocalBackend(DEVICE, torch.float32)
    server = await start_server(ServerConfig("127.0.0.1", 0, nats_url, backend, weights_port=0))
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
    return Trainer(rpc.TrainerServiceStub(channel), server, run_path), channel


async def test_a_trainer_that_serves_no_weights_refuses_by_path(trainer: Trainer, model_path: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=r"weights.transport.stream: this trainer serves no weights"):
        await until_configured(trainer.stub, configure_request(streamed(model_path), trainer.run_path))
    answer = await trainer.configure(grpo_spec(model_path))
    assert answer.weights.url == ""


async def test_each_version_is_served_where_the_trainer_says(
    nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    trainer, channel = await serve_weights(nats_url, tmp_path / "run")
    try:
        first = await trainer.configure(streamed(model_path))
        assert first.weights.url.endswith("/weights/uid-1")
        episodes = group(sampler)
        for episode in episodes:
            await stream.publish(episode)
        manifest = await stream.manifest(0, episodes)
        result = await trainer.train(manifest)
        assert result.weights.url == first.weights.url
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{result.weights.url}/v1/manifest.json") as answer:
                text = await answer.read()
            assert hashlib.sha256(text).hexdigest() == result.weights.manifest_digest
            for path in ("v1/../../run.json", "v1/%2e%2e/%2e%2e/run.json", "v0/config.json", "v01/config.json"):
                async with session.get(f"{result.weights.url}/{path}") as answer:
                    assert answer.status == 404, path
    finally:
        await channel.close()
        await trainer.server.close(grace_s=0.1)
    # Another process, on another port: what the checkpoint holds of the first is not repeated.
    again, channel = await serve_weights(nats_url, tmp_path / "run")
    try:
        answer = await again.configure(streamed(model_path))
        assert answer.step == 1
        assert answer.weights.url != result.weights.url
        assert (await again.train(manifest)).weights.url == answer.weights.url
    finally:
        await channel.close()
        await again.server.close(grace_s=0.1)
