# SPDX-License-Identifier: Apache-2.0
"""The backend local with several ranks: processes of this machine that shard our transformer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from ranked_kit import BesideOneProcess, LosesNothing, after, far, local, of_loss, several_rows
from test_gradients import GRPO, SETTINGS
from test_hugging_face import random_model
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.custom import CustomAlgorithm
from whetstone_trainer.backends.local.processes import ProcessRanks
from whetstone_trainer.backends.local.ranked import ProcessBackend
from whetstone_trainer.backends.protocol import Checkpoint, PolicyVersion, StepBatch
from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import PublishedForm, Sharding

CPU = torch.device("cpu")


def process_of(backend: RankedBackend, index: int) -> int:
    assert backend._job is not None
    assert isinstance(backend._job.ranks, ProcessRanks)
    return backend._job.ranks._ranks[index].process.pid


@pytest.fixture(scope="module")
def ranked() -> Iterator[RankedBackend]:
    backend = ProcessBackend(2, CPU, hang_s=10)
    yield backend
    backend.close()


class TestRanks(BesideOneProcess, LosesNothing):
    def start(self, ranks: int, hang_s: float) -> RankedBackend:
        return ProcessBackend(ranks, CPU, hang_s=hang_s)

    def process_of(self, backend: RankedBackend, index: int) -> int:
        return process_of(backend, index)

    def test_masters_stay_finer_than_what_is_published(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path
    ) -> None:
        """A checkpoint holds the float32 weights; going back to it gives the same numbers as going on."""
        settings = replace(of_loss("clipped"), published=PublishedForm(dtype="bfloat16"))
        after(ranked, model_path, settings, several_rows(), tmp_path / "v5")
        (tmp_path / "state").mkdir()
        ranked.save(tmp_path / "state")
        before = ranked.log_probabilities(several_rows(), PolicyVersion(5, tmp_path / "v5"), lambda _: None)
        ranked.restore(Checkpoint(PolicyVersion(5, tmp_path / "v5"), tmp_path / "state"), lambda _: None)
        again = ranked.log_probabilities(several_rows(), PolicyVersion(5, tmp_path / "v5"), lambda _: None)
        assert before is not None
        assert again is not None
        assert all((one == other).all() for one, other in zip(before, again, strict=True))
        ranked.adopt(PolicyVersion(5, tmp_path / "v5"))
        adopted = ranked.log_probabilities(several_rows(), PolicyVersion(5, tmp_path / "v5"), lambda _: None)
        assert adopted is not None
        assert all((one == other).all() for one, other in zip(before, adopted, strict=True))

    def test_a_file_of_a_rank_that_is_missing_is_told(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path
    ) -> None:
        settings, state = of_loss("clipped"), tmp_path / "state"
        after(ranked, model_path, settings, several_rows(), tmp_path / "v5")
        state.mkdir()
        ranked.save(state)
        names = [f"optimizer-0000{index}-of-00002.pt" for index in (1, 2)]
        assert sorted(one.name for one in state.iterdir()) == names
        (state / names[1]).unlink()
        alone = local()
        alone.configure(settings, model_path, lambda _: None)
        with pytest.raises(TrainerError, match=r"optimizer\.pt: cannot be read: .*1 of 2 files"):
            alone.restore(Checkpoint(PolicyVersion(5, tmp_path / "v5"), state), lambda _: None)

    def test_what_it_cannot_do_is_refused_by_its_path(
        self, ranked: RankedBackend, model_path: Path, tmp_path: Path
    ) -> None:
        lora = replace(SETTINGS, lora=with_defaults(jobs.Lora()))
        with pytest.raises(TrainerError, match=r"^model\.lora: several ranks train all weights"):
            ranked.configure(lora, model_path, lambda _: None)
        own = replace(SETTINGS, algorithm=replace(GRPO, custom=CustomAlgorithm(None, None)))
        with pytest.raises(TrainerError, match=r"^algorithm\.policyGradient\.module: the backend local with several"):
            ranked.configure(own, model_path, lambda _: None)
        together = replace(SETTINGS, sharding=Sharding(sequence_parallel=2))
        with pytest.raises(TrainerError, match=r"^sharding\.sequenceParallel: the backend local does not do it"):
            ranked.configure(together, model_path, lambda _: None)
        with pytest.raises(TrainerError, match=r"^model\.path: .*the backend verl shards such models"):
            ranked.configure(SETTINGS, random_model("GPTNeoX", tmp_path / "other"), lambda _: None)

    def test_a_stop_within_a_step_ends_all_ranks(self, ranked: RankedBackend, model_path: Path, tmp_path: Path) -> None:
        given = (model_path, of_loss("clipped"), several_rows())
        once = after(ranked, *given, tmp_path / "once")
        lost = [process_of(ranked, index) for index in (0, 1)]

        def stop(share: float) -> None:
            raise TrainerError("CONFLICT", "stopped")

        # Of minutes, so that there are signs of life before its end.
        long = replace(of_loss("clipped"), batching=with_defaults(jobs.Batching(epochs=1_000_000)))
        with pytest.raises(TrainerError, match="stopped"):
            ranked.step(StepBatch(5, several_rows(), long), stop)
        assert not any(Path("/proc", str(one)).exists() for one in lost)
        assert far(after(ranked, *given, tmp_path / "again"), once) == 0


SERVICE = """
import sys, time
from pathlib import Path
import torch
from whetstone_trainer.backends.local.ranked import ProcessBackend
from whetstone_trainer.contract.settings import parse_settings
from trainer_kit import grpo_spec
from test_ranks import process_of
if __name__ == "__main__":
    backend = ProcessBackend(2, torch.device("cpu"), hang_s=10)
    backend.configure(parse_settings(grpo_spec(Path(sys.argv[1]))), Path(sys.argv[1]), lambda _: None)
    print(process_of(backend, 0), process_of(backend, 1), flush=True)
    time.sleep(600)
"""


def test_no_rank_outlives_the_trainer(model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "service.py"), str(model_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as service:
        assert service.stdout is not None
        ranks = [int(one) for one in service.stdout.readline().split()]
        assert len(ranks) == 2
        # One that stands still, too.
        os.kill(ranks[1], signal.SIGSTOP)
        service.kill()
    until = time.monotonic() + 30
    while any(Path("/proc", str(one)).exists() for one in ranks):
        assert time.monotonic() < until
        time.sleep(0.1)
