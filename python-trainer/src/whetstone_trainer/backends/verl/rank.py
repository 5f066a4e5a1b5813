# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""One rank of a job: a Ray actor that runs the local backend on its share of verl's engines."""

from __future__ import annotations

import logging
import os
import socket
from datetime import timedelta
from typing import Any

import ray
import torch

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.ranks import Ranks
from whetstone_trainer.backends.ranked import RankCalls
from whetstone_trainer.backends.verl.cpu_platform import register_cpu_platform

log = logging.getLogger("whetstone_trainer")


class _Rank:
    """Calls come one at a time; `progress` is answered beside them, so that a rank that hangs is found."""

    def __init__(self, index: int, count: int, compute: torch.dtype, threads: int) -> None:
        self._ranks, self._compute, self._threads = Ranks(index, count), compute, threads

    def address(self) -> tuple[str, int]:
        """Where the first rank can be met, on a port that is free now."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def join(self, host: str, port: int, seconds: float) -> str:
        """Meets the other ranks; the kind of device. `seconds`: longest wait of any exchange with them."""
        torch.set_num_threads(self._threads)
        on_gpu = torch.cuda.is_available()
        if not on_gpu:
            register_cpu_platform()
        from whetstone_trainer.backends.verl.models import EngineModels

        os.environ |= {"LOCAL_RANK": "0", "RANK": str(self._ranks.index), "WORLD_SIZE": str(self._ranks.count)}
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
            init_method=f"tcp://{host}:{port}",
            rank=self._ranks.index,
            world_size=self._ranks.count,
            timeout=timedelta(seconds=seconds),
        )
        device = torch.device("cuda" if on_gpu else "cpu")
        backend = LocalBackend(device, self._compute, EngineModels(device, self._compute, self._ranks))
        self._calls = RankCalls(backend, self._ranks.index == 0)
        return device.type

    @ray.method(concurrency_group="watch")
    def progress(self) -> float:
        """As `RankCalls.progress`."""
        return self._calls.progress

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        """As `RankCalls.call`."""
        return self._calls.call(method, given)


Rank: Any = ray.remote(concurrency_groups={"watch": 1})(_Rank)
