# SPDX-License-Identifier: Apache-2.0
"""What the trainer's tests are built from: hand-made episodes, job specs, the stream they are published to."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import torch
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model
from whetstone_trainer.algorithms.aggregation import token_weights
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import StepRequest

torch.set_num_threads(1)
JOB, UID = "toy", "uid-1"
PROMPT = [256, 65, 66, 257]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nats_binary() -> str:
    """Of the environment that packages come from, which may be another than the interpreter's."""
    folders = [
        Path(sys.executable).parent,
        *(Path(one).parents[2] / "bin" for one in sys.path if one.endswith("-packages")),
    ]
    own = [str(folder / "nats-server") for folder in folders if (folder / "nats-server").exists()]
    found = own[0] if own else shutil.which("nats-server")
    assert found, "nats-server is neither on PATH nor beside the Python interpreter"
    return found


@dataclass
class Turn:
    """One stateless call: a prompt, what was sampled, and the reward-free rest left at defaults."""

    prompt: list[int]
    completion: list[int]
    version: int = 0


def call_of(turn: Turn, index: int, logprobs: Sequence[float]) -> types.ModelCall:
    span = types.VersionSpan(start=0, end=len(turn.completion), policy_version=turn.version)
    return types.ModelCall(
        id=f"c{index}",
        prompt_ids=turn.prompt,
        completion_ids=turn.completion,
        logprobs=logprobs,
        version_spans=[span],
        sampling=types.Sampling(temperature=1.0),
    )


class Sampler:
    """Stands in for the engine: gives the true log-probabilities of given completions under a model folder."""

    def __init__(self, folder: Path) -> None:
        self.model = self.load(folder)

    def load(self, folder: Path) -> torch.nn.Module:
        """Ids [1, T] → logits [1, T, vocab]."""
        return load_model(folder)

    def logprobs(self, prompt: Sequence[int], completion: Sequence[int]) -> list[float]:
        ids = torch.tensor([[*prompt, *completion]])
        with torch.no_grad():
            table = self.model(ids).log_softmax(-1)[0]
        return [float(table[len(prompt) + i - 1, token]) for i, token in enumerate(completion)]

    def episode(self, group: int, sample: int, turns: Sequence[Turn], reward: float) -> types.Episode:
        calls = [call_of(turn, i, self.logprobs(turn.prompt, turn.completion)) for i, turn in enumerate(turns)]
        return types.Episode(
            id=f"{JOB}/g{group}/s{sample}",
            job=JOB,
            group=f"g{group}",
            sample=sample,
            purpose=types.PURPOSE_TRAIN,
            calls=calls,
            reward=reward,
            is_correct=reward > 0,
            termination_reason=types.TERMINATION_REASON_ENV_DONE,
        )


def group(sampler: Sampler, index: int = 0, version: int = 0) -> list[types.Episode]:
    """Four answers to one prompt; token 70 is rewarded."""
    answers = [(70, 1.0), (71, 0.0), (70, 1.0), (72, 0.0)]
    turns = [([Turn(PROMPT, [token, 260], version)], reward) for token, reward in answers]
    return [sampler.episode(index, i, turn, reward) for i, (turn, reward) in enumerate(turns)]


def demonstration(sample: int, prompt: list[int], answer: list[int]) -> types.Episode:
    call = types.ModelCall(
        id="c0", prompt_ids=prompt, completion_ids=answer, demonstration_mask=[1] * (len(answer) - 1) + [0]
    )
    return types.Episode(
        id=f"{JOB}/g{sample}/s0",
        job=JOB,
        group=f"g{sample}",
        purpose=types.PURPOSE_DEMONSTRATION,
        calls=[call],
    )


def pair(index: int, chosen: list[int], rejected: list[int]) -> list[types.Episode]:
    """As orchestrators seal them: one prompt, what was chosen with reward 1."""
    return [
        types.Episode(
            id=f"{JOB}/g{index}/s{sample}",
            job=JOB,
            group=f"g{index}",
            sample=sample,
            purpose=types.PURPOSE_DEMONSTRATION,
            calls=[types.ModelCall(id="c0", prompt_ids=PROMPT, completion_ids=answer)],
            reward=1.0 - sample,
        )
        for sample, answer in enumerate([chosen, rejected])
    ]


class Stream:
    """The job's EPISODE stream: publishes episodes and lists them in manifests."""

    def __init__(self, client: Client) -> None:
        self.js = client.jetstream()

    async def create(self) -> None:
        config = StreamConfig(
            name=f"WS_EPISODE_{JOB}",
            subjects=[f"ws.{JOB}.episode.>"],
            storage=StorageType.MEMORY,
            allow_direct=True,
        )
        await self.js.add_stream(config)

    async def publish(
        self, episode: types.Episode, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> events.BatchEntry:
        payload = episode.SerializeToString()
        subject = f"ws.{JOB}.episode.{episode.group}.{episode.sample}"
        ack = await self.js.publish(subject, payload if body is None else body, headers=headers)
        return events.BatchEntry(
            episode_id=episode.id,
            group=episode.group,
            sequence=ack.seq,
            digest=hashlib.sha256(payload).hexdigest(),
            reward=episode.reward,
        )

    async def manifest(self, step: int, episodes: Sequence[types.Episode]) -> bytes:
        entries = [await self.publish(episode) for episode in episodes]
        return manifest_of(step, entries)


def manifest_of(step: int, entries: Sequence[events.BatchEntry]) -> bytes:
    return events.BatchManifest(job=JOB, step=step, epoch=1, entries=entries).SerializeToString()


async def connect(url: str) -> Client:
    for _ in range(100):
        try:
            return await nats.connect(url, connect_timeout=1, max_reconnect_attempts=1)
        except Exception:
            await asyncio.sleep(0.05)
    raise AssertionError(f"no nats-server at {url}")


def grpo_spec(model_path: Path, **loop: Any) -> jobs.JobSpec:
    spec = jobs.JobSpec(name=JOB, model=jobs.ModelSource(path=str(model_path)), seed=7)
    spec.loop.MergeFrom(jobs.Loop(**{"steps": 100, "batch_groups": 1, **loop}))
    spec.algorithm.policy_gradient.MergeFrom(
        jobs.PolicyGradient(group_size=4, optimizer=jobs.Optimizer(learning_rate=3e-3))
    )
    return spec


def ppo_spec(model_path: Path, **loop: Any) -> jobs.JobSpec:
    spec = grpo_spec(model_path, **loop)
    options = spec.algorithm.policy_gradient
    options.advantage = types.ADVANTAGE_ESTIMATOR_GAE
    options.critic.optimizer.learning_rate = 3e-3
    options.batching.MergeFrom(jobs.Batching(mini_batches=2, epochs=2))
    return spec


def lora_spec(model_path: Path, **loop: Any) -> jobs.JobSpec:
    spec = grpo_spec(model_path, **loop)
    spec.model.lora.MergeFrom(jobs.Lora(rank=4, alpha=8))
    return spec


def sft_spec(model_path: Path) -> jobs.JobSpec:
    spec = jobs.JobSpec(name=JOB, model=jobs.ModelSource(path=str(model_path)), seed=7)
    spec.loop.MergeFrom(jobs.Loop(steps=100, batch_groups=1))
    spec.algorithm.sft.optimizer.learning_rate = 3e-3
    return spec


def dpo_spec(model_path: Path, variant: jobs.DpoVariant = jobs.DPO_VARIANT_DPO) -> jobs.JobSpec:
    spec = jobs.JobSpec(name=JOB, model=jobs.ModelSource(path=str(model_path)), seed=7)
    spec.loop.MergeFrom(jobs.Loop(steps=100, batch_groups=2))
    spec.algorithm.dpo.MergeFrom(jobs.Dpo(variant=variant, optimizer=jobs.Optimizer(learning_rate=3e-3)))
    return spec


def done(run: JobRun, request: StepRequest) -> wire.TrainResult:
    """A step with its checkpoint."""
    result = run.train(request, untold)
    run.commit()
    return result


async def committed(run_path: Path, step: int) -> None:
    """Once another process has written the checkpoint of so many steps."""

    async def is_there() -> bool:
        return (run_path / "checkpoints" / f"step-{step}").exists()

    await until(is_there)


def configure_request(spec: jobs.JobSpec, run_path: Path, epoch: int = 1, uid: str = UID) -> wire.ConfigureRequest:
    return wire.ConfigureRequest(spec=spec, run_path=str(run_path), epoch=epoch, job_uid=uid)


async def until_configured(stub: rpc.TrainerServiceStub, request: wire.ConfigureRequest) -> wire.ConfigureResponse:
    """Asks until the trainer is ready."""
    async with asyncio.timeout(60):
        while (answer := await stub.Configure(request)).HasField("progress"):
            pass
    return answer


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


def agg_loss(
    losses_RT: torch.Tensor,
    mask_RT: torch.Tensor,
    mode: str,
    workers: int = 1,
    total_tokens: float | None = None,
    total_rows: float | None = None,
    scale_factor: float | None = None,
) -> torch.Tensor:
    """`token_weights` on padded matrices, with verl's defaults: what is absent is taken from this batch."""
    mask = mask_RT.bool()
    lengths_R = mask.sum(1)
    weights_R = token_weights(
        lengths_R,
        mode,
        float(lengths_R.sum()) if total_tokens is None else total_tokens,
        float((lengths_R > 0).sum()) if total_rows is None else total_rows,
        float(mask.shape[1]) if scale_factor is None else scale_factor,
        workers,
    )
    # where, not a product: NaN outside the mask must vanish too.
    kept = torch.where(mask, losses_RT, torch.zeros_like(losses_RT))
    return (kept.sum(1) * weights_R.to(losses_RT.dtype)).sum()
