# SPDX-License-Identifier: Apache-2.0
"""What holds for every backend of several ranks, beside the backend local with one: the same numbers."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from safetensors.torch import load_file
from test_critic import ppo_spec, request, sampled
from test_gradients import GRPO, SETTINGS, adam, make_rows
from test_preference import OPTIONS, pairs, settings_of
from trainer_kit import UID, done, grpo_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.protocol import PolicyVersion, StepBatch, TrainerBackend
from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.batch.rows import Row, with_shares
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import TrainSettings, parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import OnProgress
from whetstone_trainer.weights.run_folder import RunFolder

# Of weights after five steps of Adam with rates that move them by thousands of this.
CLOSE = 1e-5
RATES = adam(learning_rate=1e-3)
Weights = dict[str, torch.Tensor]


def local() -> LocalBackend:
    return LocalBackend(DEVICE)


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


class BesideOneProcess:
    """Tests that a class inherits beside a fixture `ranked`."""

    @pytest.mark.parametrize("name", ["grpo", "ppo"])
    def test_five_steps_move_the_weights_as_one_process_does(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path, name: str
    ) -> None:
        spec, folders = specs(model_path)[name], (tmp_path / "local", tmp_path / "ranked")
        ours, theirs = (run_of(spec, model_path, *each) for each in zip(folders, (local(), ranked), strict=True))
        for step in range(5):
            wanted = request(step, sampled(ours, 16, step))
            mine, other = done(ours, wanted).metrics, done(theirs, wanted).metrics
            measured = {one for one in mine if not one.startswith(("time/", "tokens_per", "memory"))}
            assert measured <= set(other)
            for one in sorted(measured):
                assert other[one] == pytest.approx(mine[one], rel=1e-3, abs=1e-4), one
        assert far(published(folders[0], 5), load_file(model_path / "model.safetensors")) > 100 * CLOSE
        assert far(published(folders[0], 5), published(folders[1], 5)) <= CLOSE
        # Each rank has written its part of the optimizer.
        alone, held = (sorted((one / "checkpoints/step-5").glob("optimizer*.pt")) for one in folders)
        assert max(one.stat().st_size for one in held) < 1.3 * alone[0].stat().st_size / len(held)
        # And each goes on from the other's checkpoint.
        for folder, backend in zip(folders, (ranked, local()), strict=True):
            again = run_of(spec, model_path, folder, backend)
            assert again.step == 5
            done(again, request(5, sampled(again, 16, 5)))
        assert far(published(folders[0], 6), published(folders[1], 6)) <= 2 * CLOSE

    @pytest.mark.parametrize("loss", sorted(TOKEN_LOSSES))
    def test_every_loss_is_the_same(self, ranked: RankedBackend, model_path: Path, tmp_path: Path, loss: str) -> None:
        given = (model_path, of_loss(loss), several_rows())
        assert far(after(local(), *given, tmp_path / "ours"), after(ranked, *given, tmp_path / "theirs")) <= CLOSE

    def test_several_epochs_and_mini_batches_are_the_same(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path
    ) -> None:
        """Of a size that leaves one rank without a pass of its own."""
        settings = replace(of_loss("clipped"), batching=with_defaults(jobs.Batching(epochs=2, mini_batches=5)))
        given = (model_path, settings, several_rows())
        assert far(after(local(), *given, tmp_path / "ours"), after(ranked, *given, tmp_path / "theirs")) <= CLOSE

    def test_pairs_are_the_same(self, ranked: RankedBackend, model_path: Path, tmp_path: Path) -> None:
        given = (model_path, replace(settings_of(OPTIONS["dpo"]), optimizer=RATES), pairs())
        assert far(after(local(), *given, tmp_path / "ours"), after(ranked, *given, tmp_path / "theirs")) <= CLOSE

    def test_older_versions_are_scored_from_their_folders(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path
    ) -> None:
        settings, rows = replace(of_loss("clipped"), max_policy_lag=2), several_rows()
        found = []
        for backend, folder in ((local(), tmp_path / "ours"), (ranked, tmp_path / "theirs")):
            after(backend, model_path, settings, rows, folder)
            found.append(backend.log_probabilities(rows, PolicyVersion(0, model_path), lambda _: None))
            found.append(backend.predictions(rows, PolicyVersion(5, folder), lambda _: None))
        for index in (0, 1):
            for one, other in zip(found[index], found[index + 2], strict=True):
                np.testing.assert_allclose(one, other, atol=1e-4)


class LosesNothing(ABC):
    """A test that a class inherits."""

    @abstractmethod
    def start(self, ranks: int, hang_s: float) -> RankedBackend: ...

    @abstractmethod
    def process_of(self, backend: RankedBackend, index: int) -> int:
        """Of a rank of a backend that has a job."""

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
    @pytest.mark.parametrize("name", ["grpo", "ppo"])
    def test_a_rank_lost_in_a_step_changes_nothing(
        self, model_path: Path, tmp_path: Path, how: signal.Signals, name: str
    ) -> None:
        spec, backend = specs(model_path)[name], self.start(2, 5)
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
                        run.train(wanted[step], hurting(self.process_of(backend, 1), how))
                    assert (caught.value.code, caught.value.context["reason"]) == ("UNAVAILABLE", "RankLost")
                    run.recover()
                done(run, wanted[step])
            assert far(published(tmp_path / "whole", 4), published(tmp_path / "hurt", 4)) == 0
            left = [self.process_of(backend, index) for index in (0, 1)]
        finally:
            backend.close()
        assert [process for process in left if is_left(process)] == []


def is_left(process: int) -> bool:
    """Whether it runs, or waits for us to take its exit status. One that waits for another parent has ended."""
    try:
        state, parent = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" or int(parent) == os.getpid()


def hurting(process: int, how: signal.Signals) -> OnProgress:
    """Once training has begun."""

    def on_progress(phase: str, share: float) -> None:
        if phase == "training":
            os.kill(process, how)

    return on_progress
