# SPDX-License-Identifier: Apache-2.0
"""The backend verl beside the backend local, on real Ray actors: the same numbers, and nothing lost with a rank."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from test_critic import ppo_spec, request, sampled
from test_gradients import GRPO, SETTINGS, adam, make_rows
from test_preference import OPTIONS, pairs, settings_of
from trainer_kit import UID, configure_request, done, free_port, grpo_spec, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_trainer.algorithms.custom import CustomAlgorithm
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.protocol import PolicyVersion, StepBatch, TrainerBackend
from whetstone_trainer.backends.verl.backend import VerlBackend
from whetstone_trainer.backends.verl.cluster import remove_left_behind
from whetstone_trainer.batch.rows import Row, with_shares
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import TrainSettings, parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.weights.run_folder import RunFolder

pytestmark = pytest.mark.timeout(300)
# Of weights after five steps of Adam with rates that move them by thousands of this.
CLOSE = 1e-5
RATES = adam(learning_rate=1e-3)
Weights = dict[str, torch.Tensor]


def local() -> LocalBackend:
    return LocalBackend(torch.device("cpu"))


@pytest.fixture(scope="module", params=[1, 2], ids=["one rank", "two ranks"])
def verl(request: pytest.FixtureRequest) -> Iterator[VerlBackend]:
    backend = VerlBackend(request.param, hang_s=10)
    yield backend
    backend.close()


def far(one: Weights, other: Weights) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def run_of(spec: jobs.JobSpec, model: Path, folder: Path, backend: TrainerBackend) -> JobRun:
    return JobRun(parse_settings(spec), RunFolder(folder, model), UID, backend, untold)


def specs(model: Path) -> dict[str, jobs.JobSpec]:
    found = {"grpo": grpo_spec(model, steps=40), "ppo": ppo_spec(model, steps=40)}
    for spec in found.values():
        spec.algorithm.policy_gradient.optimizer.learning_rate = 1e-3
    return found


def published(folder: Path, version: int) -> Weights:
    return load_file(folder / f"weights/v{version}/model.safetensors")


@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_five_steps_move_the_weights_as_one_process_does(
    verl: VerlBackend, model_path: Path, tmp_path: Path, name: str
) -> None:
    spec, folders = specs(model_path)[name], (tmp_path / "local", tmp_path / "verl")
    ours, theirs = (run_of(spec, model_path, *each) for each in zip(folders, (local(), verl), strict=True))
    for step in range(5):
        wanted = request(step, sampled(ours, 16, step))
        mine, other = done(ours, wanted).metrics, done(theirs, wanted).metrics
        measured = {one for one in mine if not one.startswith(("time/", "tokens_per", "memory"))}
        assert measured <= set(other)
        for one in sorted(measured):
            assert other[one] == pytest.approx(mine[one], rel=1e-3, abs=1e-4), one
    assert far(published(folders[0], 5), load_file(model_path / "model.safetensors")) > 100 * CLOSE
    assert far(published(folders[0], 5), published(folders[1], 5)) <= CLOSE
    # And each goes on from the other's checkpoint.
    for folder, backend in zip(folders, (verl, local()), strict=True):
        again = run_of(spec, model_path, folder, backend)
        assert again.step == 5
        done(again, request(5, sampled(again, 16, 5)))
    assert far(published(folders[0], 6), published(folders[1], 6)) <= 2 * CLOSE


def several_rows() -> list[Row]:
    """Trajectories of up to three rows."""
    return with_shares([replace(row, trajectory=row.trajectory // 3) for row in make_rows(21)])


def of_loss(loss: str) -> TrainSettings:
    options = with_defaults(jobs.PolicyGradient(entropy_coefficient=0.01))
    return replace(SETTINGS, algorithm=replace(GRPO, token_loss=loss, options=options), optimizer=RATES)


def after(backend: TrainerBackend, model: Path, settings: TrainSettings, rows: list[Row], to: Path) -> Weights:
    backend.configure(settings, model, lambda _: None)
    for step in range(5):
        backend.step(StepBatch(step, rows, settings), lambda _: None)
    backend.publish(to, 5)
    return load_file(to / "model.safetensors")


@pytest.mark.parametrize("loss", sorted(TOKEN_LOSSES))
def test_every_loss_is_the_same(verl: VerlBackend, model_path: Path, tmp_path: Path, loss: str) -> None:
    given = (model_path, of_loss(loss), several_rows())
    assert far(after(local(), *given, tmp_path / "ours"), after(verl, *given, tmp_path / "theirs")) <= CLOSE


def test_several_epochs_and_mini_batches_are_the_same(verl: VerlBackend, model_path: Path, tmp_path: Path) -> None:
    """Of a size that leaves one rank without a pass of its own."""
    settings = replace(of_loss("clipped"), batching=with_defaults(jobs.Batching(epochs=2, mini_batches=5)))
    given = (model_path, settings, several_rows())
    assert far(after(local(), *given, tmp_path / "ours"), after(verl, *given, tmp_path / "theirs")) <= CLOSE


def test_pairs_are_the_same(verl: VerlBackend, model_path: Path, tmp_path: Path) -> None:
    given = (model_path, replace(settings_of(OPTIONS["dpo"]), optimizer=RATES), pairs())
    assert far(after(local(), *given, tmp_path / "ours"), after(verl, *given, tmp_path / "theirs")) <= CLOSE


def test_older_versions_are_scored_from_their_folders(verl: VerlBackend, model_path: Path, tmp_path: Path) -> None:
    settings, rows = replace(of_loss("clipped"), max_policy_lag=2), several_rows()
    found = []
    for backend, folder in ((local(), tmp_path / "ours"), (verl, tmp_path / "theirs")):
        after(backend, model_path, settings, rows, folder)
        found.append(backend.log_probabilities(rows, PolicyVersion(0, model_path), lambda _: None))
        found.append(backend.predictions(rows, PolicyVersion(5, folder), lambda _: None))
    for index in (0, 1):
        for one, other in zip(found[index], found[index + 2], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


def test_what_it_cannot_do_is_refused_by_its_path(verl: VerlBackend, model_path: Path, tmp_path: Path) -> None:
    lora = replace(SETTINGS, lora=with_defaults(jobs.Lora()))
    with pytest.raises(TrainerError, match=r"^model\.lora: the backend verl trains all weights"):
        verl.configure(lora, model_path, lambda _: None)
    own = replace(SETTINGS, algorithm=replace(GRPO, custom=CustomAlgorithm(None, None)))
    with pytest.raises(TrainerError, match=r"^algorithm\.policyGradient\.module: the backend verl does not run"):
        verl.configure(own, model_path, lambda _: None)
    with pytest.raises(TrainerError, match=r"^model\.path: "):
        verl.configure(SETTINGS, tmp_path, lambda _: None)


def ranks_of(process: psutil.Process) -> list[psutil.Process]:
    return [one for one in process.children(recursive=True) if "ray::_Rank" in " ".join(one.cmdline())]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_a_rank_lost_in_a_step_changes_nothing(
    model_path: Path, tmp_path: Path, how: signal.Signals, name: str
) -> None:
    spec, backend = specs(model_path)[name], VerlBackend(2, hang_s=5)
    try:
        undisturbed = run_of(spec, model_path, tmp_path / "whole", backend)
        wanted = []
        for step in range(4):
            wanted.append(request(step, sampled(undisturbed, 16, step)))
            done(undisturbed, wanted[-1])
        run = run_of(spec, model_path, tmp_path / "hurt", backend)
        for step in range(4):
            if step == 2:
                with pytest.raises(TrainerError, match="a rank of the trainer") as caught:
                    run.train(wanted[step], hurting(ranks_of(psutil.Process())[1], how))
                assert caught.value.code == "UNAVAILABLE"
                run.recover()
            done(run, wanted[step])
        assert far(published(tmp_path / "whole", 4), published(tmp_path / "hurt", 4)) == 0
    finally:
        backend.close()
    assert ranks_of(psutil.Process()) == []


def hurting(process: psutil.Process, how: signal.Signals) -> Any:
    """Once training has begun."""

    def on_progress(phase: str, share: float) -> None:
        if phase == "training":
            process.send_signal(how)

    return on_progress


async def started_service(nats_url: str, model: Path, run: Path) -> subprocess.Popen[bytes]:
    """A trainer's process with a job on one rank."""
    port = free_port()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "whetstone_trainer", "--backend", "verl", "--nats", nats_url, "--port", str(port)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
        await until_configured(rpc.TrainerServiceStub(channel), configure_request(grpo_spec(model), run, 1, UID))
    return service


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
async def test_no_process_is_left_of_a_service(nats_url: str, model_path: Path, tmp_path: Path, how: Any) -> None:
    service = await started_service(nats_url, model_path, tmp_path)
    started = psutil.Process(service.pid).children(recursive=True)
    assert len(ranks_of(psutil.Process(service.pid))) == 1
    folders = list(Path(tempfile.gettempdir()).glob(f"whetstone-ray-{service.pid}-*"))
    assert len(folders) == 1
    service.send_signal(how)
    assert service.wait(20) == (0 if how == signal.SIGTERM else -how)
    # Ray's agents look for their raylet once a minute.
    _, alive = psutil.wait_procs(started, 120)
    assert alive == []
    if how == signal.SIGKILL:
        # As the next one does.
        remove_left_behind()
    assert not folders[0].exists()


def test_a_cluster_without_room_says_so(monkeypatch: pytest.MonkeyPatch, model_path: Path) -> None:
    monkeypatch.setattr("whetstone_trainer.backends.verl.cluster.START_S", 2.0)
    backend = VerlBackend(1)
    backend._count = 3
    try:
        with pytest.raises(TrainerError, match="no room for 3 ranks of 1 CPU: 1 of them"):
            backend.configure(SETTINGS, model_path, lambda _: None)
    finally:
        backend.close()
