# SPDX-License-Identifier: Apache-2.0
"""Killed inside a step, the trainer comes back with the step's first result or does the step again; stops are clean."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from compute_device import DEVICE
from trainer_kit import (
    Sampler,
    Stream,
    committed,
    configure_request,
    free_port,
    group,
    grpo_spec,
    until,
    until_configured,
)
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_models.manifest import verify_manifest

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    folders = [ROOT / "src", ROOT.parent / "proto" / "gen" / "python", Path(__file__).parent]
    paths = os.pathsep.join(map(str, folders))
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "WHETSTONE_SUPERVISED": "1"}


@asynccontextmanager
async def process(nats_url: str) -> AsyncIterator[tuple[rpc.TrainerServiceStub, subprocess.Popen]]:
    port = free_port()
    arguments = ["--port", str(port), "--nats", nats_url, "--device", DEVICE.type]
    command = [sys.executable, "-m", "whetstone_trainer", *arguments]
    child = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
    try:
        async with asyncio.timeout(90):
            await channel.channel_ready()
        yield rpc.TrainerServiceStub(channel), child
    finally:
        await channel.close()
        child.kill()
        child.wait(10)


async def configure(stub: rpc.TrainerServiceStub, spec: jobs.JobSpec, run_path: Path) -> wire.ConfigureResponse:
    return await until_configured(stub, configure_request(spec, run_path))


async def train(stub: rpc.TrainerServiceStub, manifest: bytes) -> wire.TrainResult:
    request = wire.TrainStepRequest(epoch=1, manifest=manifest)
    return [response async for response in stub.TrainStep(request)][-1].result


COMMIT, FOLDER = "whetstone_trainer.service.commit", "whetstone_trainer.weights.run_folder"
CRITIC = "whetstone_trainer.backends.local.critic"
# Module, function, and at which call of it, before or after, the process dies. Step 0 makes the first calls.
CRASHES = {
    "while training": ("whetstone_trainer.backends.local.learner", "accumulate", "after", 2),
    "before the weights have their name": ("whetstone_models.folder", "publish_directory", "before", 2),
    "between weights and checkpoint": (COMMIT, "write_checkpoint", "before", 2),
    "before the checkpoint has its name": (FOLDER, "RunFolder.discard", "before", 2),
    "after the checkpoint": (COMMIT, "write_checkpoint", "after", 2),
    "while old checkpoints are removed": (FOLDER, "RunFolder.prune", "after", 2),
    "never": (FOLDER, "RunFolder.prune", "after", 99),
}
# Two passes over two mini-batches make four calls a step.
OF_CRITIC = {
    "while training": ("whetstone_trainer.backends.local.learner", "accumulate", "after", 6),
    "while the critic trains": (f"{CRITIC}_learner", "accumulate_value_loss", "after", 6),
    "before the critic is saved": (CRITIC, "Critic.write", "before", 2),
    "after the critic is saved": (CRITIC, "Critic.write", "after", 2),
}
OF_ADAPTER = ("while training", "between weights and checkpoint", "before the checkpoint has its name", "never")
ALGORITHMS = {
    "GRPO": CRASHES,
    "PPO": CRASHES | OF_CRITIC,
    "LoRA": {name: CRASHES[name] for name in OF_ADAPTER},
}


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen]:
    command = [sys.executable, str(Path(__file__).parent / "crash_zygote.py")]
    child = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield child
    child.kill()
    child.wait(10)


def crash(zygote: subprocess.Popen, run: Path, model_path: Path, algorithm: str, name: str) -> dict[str, Any]:
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    module, path, when, calls = ALGORITHMS[algorithm][name]
    at = {"run": str(run), "model": str(model_path), "algorithm": algorithm}
    case = {**at, "module": module, "path": path, "when": when, "calls": calls}
    zygote.stdin.write(json.dumps(case).encode() + b"\n")
    zygote.stdin.flush()
    return json.loads(zygote.stdout.readline())


@pytest.fixture(scope="module")
def undisturbed(
    zygote: subprocess.Popen, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """Digests of the weights after two steps of runs that nobody kills: training is bitwise repeatable."""
    found = {}
    for algorithm in ALGORITHMS:
        answer = crash(zygote, tmp_path_factory.mktemp("undisturbed"), model_path, algorithm, "never")
        assert answer["signal"] is None
        found[algorithm] = answer["weights"]
    return found


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [(algorithm, name) for algorithm, crashes in ALGORITHMS.items() for name in crashes if name != "never"],
)
def test_killed_at_any_point_of_a_step(
    algorithm: str,
    name: str,
    zygote: subprocess.Popen,
    model_path: Path,
    tmp_path: Path,
    undisturbed: dict[str, list[str]],
) -> None:
    answer = crash(zygote, tmp_path / "run", model_path, algorithm, name)
    assert answer["signal"] == signal.SIGKILL
    is_done = name in ("after the checkpoint", "while old checkpoints are removed")
    assert answer["found"] == (2 if is_done else 1)
    assert answer["weights"] == undisturbed[algorithm]
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-2" / "state.json").read_text())
    assert [(entry["step"], entry["episodes"]) for entry in state["consumed"]] == [(0, 4), (1, 4)]
    assert verify_manifest(tmp_path / "run" / "weights" / "v2").version == 2
    assert not list(tmp_path.glob("run/**/.*.tmp"))


async def test_a_killed_service_answers_again(
    nats_url: str, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path
) -> None:
    spec = grpo_spec(model_path)
    manifest = await stream.manifest(0, group(sampler))
    async with process(nats_url) as (stub, child):
        await configure(stub, spec, tmp_path / "run")
        first = await train(stub, manifest)
        await committed(tmp_path / "run", 1)
        child.kill()
    async with process(nats_url) as (stub, child):
        assert (await configure(stub, spec, tmp_path / "run")).step == 1
        again = await train(stub, manifest)
        assert (again.replayed, again.weights, again.metrics) == (True, first.weights, first.metrics)
        await stops(child, lambda: child.send_signal(signal.SIGTERM))


async def test_it_stops_with_its_supervisor(nats_url: str, stream: Stream) -> None:
    async with process(nats_url) as (_, child):
        assert child.stdin is not None
        await stops(child, child.stdin.close)


async def stops(child: subprocess.Popen, ask: Callable[[], None]) -> None:
    ask()

    async def has_ended() -> bool:
        return child.poll() is not None

    await until(has_ended, 5)
    assert child.returncode == 0
    assert child.stderr is not None
    events = [json.loads(line)["event"] for line in child.stderr.read().splitlines()]
    assert (events[0], events[-1]) == ("ready", "stopped")
