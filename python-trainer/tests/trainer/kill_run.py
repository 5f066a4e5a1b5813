# SPDX-License-Identifier: Apache-2.0
"""A run that is played once by a trainer that nobody disturbs, and again by trainers that are killed.

Batches are sampled from the versions that the undisturbed run publishes, half of each from the version before the
newest, and are the same for every run.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from forked_trainers import Forker
from trainer_kit import PROMPT, Sampler, Stream, Turn, committed, configure_request, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.reading import file_digest

GROUP_SIZE = 4
TOKENS = range(65, 91)


@dataclass
class Undisturbed:
    """What a run came to, and how long its calls took."""

    manifests: list[bytes] = field(default_factory=list)
    # Digest of each version's manifest.json, which lists the digests of its files.
    versions: list[str] = field(default_factory=list)
    # Digest of the weights alone.
    weights: set[str] = field(default_factory=set)
    seconds: float = 0.0


@dataclass
class Disturbed:
    """A run whose trainers were killed, so often until it was through."""

    # What each trainer was doing.
    killed_while: list[str] = field(default_factory=list)
    # Of the calls of all trainers, those cut short included.
    seconds: float = 0.0


@dataclass(frozen=True)
class KillRun:
    """A job of `steps` steps."""

    spec: jobs.JobSpec
    steps: int

    async def undisturbed(self, forker: Forker, stream: Stream, run: Path) -> Undisturbed:
        found = Undisturbed(versions=[""])
        samplers = deque([Sampler(Path(self.spec.model.path))] * 2, maxlen=2)
        async with forker.trainer() as (stub, _):
            started = time.monotonic()
            await configure(stub, self.spec, run)
            found.seconds += time.monotonic() - started
            for step in range(self.steps):
                found.manifests.append(await stream.manifest(step, batch(step, samplers)))
                started = time.monotonic()
                weights = (await train(stub, found.manifests[step])).weights
                found.seconds += time.monotonic() - started
                found.versions.append(weights.manifest_digest)
                found.weights.add(file_digest(Path(weights.path) / "model.safetensors"))
                samplers.append(Sampler(Path(weights.path)))
            await committed(run, self.steps)
        return found

    async def disturbed(self, forker: Forker, same: Undisturbed, run: Path, lives_s: deque[float]) -> Disturbed:
        """Kills one trainer after the other when it has been at work for so long, until the run is through.

        Takes from `lives_s` what it uses; when there are none left, the last trainer is left alone.
        """
        found = Disturbed()
        while True:
            async with forker.trainer() as (stub, process):
                life = _Life(self, same, run)
                started = time.monotonic()
                work = asyncio.create_task(life.work(stub))
                done, _ = await asyncio.wait([work], timeout=lives_s[0] if lives_s else None)
                if not done:
                    lives_s.popleft()
                    await process.kill()
                    found.killed_while.append(life.phase())
                await asyncio.wait([work])
                lasted = time.monotonic() - started
            found.seconds += lasted
            failure = work.exception()
            if isinstance(failure, AssertionError) or (done and failure is not None):
                raise failure
            if done:
                if lives_s:
                    lives_s[0] = max(0.0, lives_s[0] - lasted)
                return found


@dataclass
class _Life:
    """One trainer's part of the run, from its first call on."""

    of: KillRun
    same: Undisturbed
    run: Path
    # Absent until it is configured.
    step: int | None = None
    # The step's weights were there when it began, from a trainer that was killed after it had published them.
    is_published: bool = False

    async def work(self, stub: rpc.TrainerServiceStub) -> None:
        answer = await configure(stub, self.of.spec, self.run)
        assert answer.weights.manifest_digest == self.same.versions[answer.step], f"restored version {answer.step}"
        for step in range(answer.step, self.of.steps):
            self.step, self.is_published = step, (self.run / "weights" / f"v{step + 1}").exists()
            weights = (await train(stub, self.same.manifests[step])).weights
            assert weights.manifest_digest == self.same.versions[step + 1], f"version {step + 1}"
        await committed(self.run, self.of.steps)

    def phase(self) -> str:
        """What it was doing when it was killed, as its folder shows."""
        if self.step is None:
            return "configuring"
        version = self.step + 1
        if (self.run / "checkpoints" / f"step-{version}").exists():
            return "after the checkpoint"
        if any(self.run.glob(f"checkpoints/.step-{version}.*.tmp")):
            return "writing the checkpoint"
        if self.is_published:
            return "computing what was published"
        if (self.run / "weights" / f"v{version}").exists():
            return "between weights and checkpoint"
        return "writing weights" if any(self.run.glob(f"weights/.v{version}.*.tmp")) else "computing"


async def configure(stub: rpc.TrainerServiceStub, spec: jobs.JobSpec, run: Path) -> wire.ConfigureResponse:
    return await until_configured(stub, configure_request(spec, run))


async def train(stub: rpc.TrainerServiceStub, manifest: bytes) -> wire.TrainResult:
    request = wire.TrainStepRequest(epoch=1, manifest=manifest)
    return [response async for response in stub.TrainStep(request)][-1].result


def batch(step: int, samplers: Iterable[Sampler]) -> list[types.Episode]:
    """Two groups of random answers with random rewards: of the version before the newest, and of the newest."""
    chance, episodes = random.Random(step), list[types.Episode]()
    for number, sampler in enumerate(samplers):
        for sample in range(GROUP_SIZE):
            answer = chance.choices(TOKENS, k=chance.randint(2, 8))
            turn = Turn(PROMPT, answer, max(0, step - 1 + number))
            reward = float(sample == 0 or chance.random() < 0.5) - float(sample == 1)
            episodes.append(sampler.episode(2 * step + number, sample, [turn], reward))
    return episodes


def lives(seconds: float, kills: int, seed: int) -> deque[float]:
    """How long each trainer lives, for kills at moments drawn uniformly from so many seconds of work."""
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0, seconds) for _ in range(kills))
    return deque(later - earlier for earlier, later in zip([0.0, *moments], moments, strict=False))


def books(run: Path, steps: int) -> dict[str, Any]:
    """What the checkpoint of the last step says of the batches behind it and of its weights, and the optimizer."""
    folder = run / "checkpoints" / f"step-{steps}"
    state = json.loads((folder / "state.json").read_text())
    critic = [file["sha256"] for file in state["files"] if file["name"] == "critic.safetensors"]
    optimizers = {path.name: _plain(torch.load(path, weights_only=True)) for path in sorted(folder.glob("*.pt"))}
    weights = state["weights"]["manifestDigest"]
    return {"consumed": state["consumed"], "weights": weights, "critic": critic, "optimizers": optimizers}


def _plain(value: Any) -> Any:
    """Tensors as their bytes: two files of the same state need not be the same bytes."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
