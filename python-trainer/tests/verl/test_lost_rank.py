# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""A rank of the backend verl is killed, stands still, or cannot be had: nothing is lost with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest
import ray
from ranked_kit import LosesNothing
from ray_ranks import ranks_of
from test_gradients import SETTINGS

from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.backends.verl.backend import VerlBackend
from whetstone_trainer.contract.errors import TrainerError

pytestmark = pytest.mark.timeout(300)


class TestLostRank(LosesNothing):
    def start(self, ranks: int, hang_s: float) -> RankedBackend:
        return VerlBackend(ranks, hang_s=hang_s)

    def process_of(self, backend: RankedBackend, index: int) -> int:
        return ranks_of(psutil.Process())[index].pid


def test_a_cluster_without_room_says_so(monkeypatch: pytest.MonkeyPatch, model_path: Path) -> None:
    monkeypatch.setattr("whetstone_trainer.backends.verl.cluster.START_S", 2.0)
    backend = VerlBackend(1)
    backend._count = 3
    try:
        with pytest.raises(TrainerError, match="no room for 3 ranks of 1 CPU: 1 of them"):
            backend.configure(SETTINGS, model_path, lambda _: None)
    finally:
        backend.close()


def test_no_process_outlives_the_backend(monkeypatch: pytest.MonkeyPatch, model_path: Path) -> None:
    """Also where Ray ends none of them."""
    us = psutil.Process()
    beside = us.children(recursive=True)
    backend = VerlBackend(1)
    folder = backend._cluster._folder
    try:
        backend.configure(SETTINGS, model_path, lambda _: None)
        started = [one for one in us.children(recursive=True) if one not in beside]
        with monkeypatch.context() as patched:
            patched.setattr(ray, "shutdown", lambda: None)
            backend.close()
        assert len(started) > 2
        assert [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        ray.shutdown()
        # It writes there once more.
        shutil.rmtree(folder, ignore_errors=True)
