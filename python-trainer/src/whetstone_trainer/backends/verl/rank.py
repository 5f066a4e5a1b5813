# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""One rank of a job: a Ray actor that runs the local backend on its share of verl's engines."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ray
import torch

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.ranks import Ranks
from whetstone_trainer.backends.verl.cpu_platform import register_cpu_platform
from whetstone_trainer.contract.errors import SettingsError, TrainerError

log = logging.getLogger("whetstone_trainer")
# Methods of a backend that are told bytes since the last call; the others are told shares.
TOLD_BYTES = ("configure", "restore")


@dataclass(frozen=True)
class Failure:
    """A TrainerError on its way to the service, without what cannot be sent."""

    code: str
    message: str
    reason: str | None = None
    violations: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(error: TrainerError) -> Failure:
        violations = error.violations if isinstance(error, SettingsError) else []
        pairs = tuple((one["path"], one["reason"]) for one in violations)
        return Failure(error.code, str(error), error.context.get("reason"), pairs)

    def error(self) -> TrainerError:
        if self.violations:
            return SettingsError(*self.violations[0])
        return TrainerError(self.code, self.message, **({"reason": self.reason} if self.reason else {}))


class _Rank:
    """Calls come one at a time; `progress` is answered beside them, so that a rank that hangs is found."""

    def __init__(self, index: int, count: int, compute: torch.dtype, threads: int) -> None:
        self._ranks, self._compute, self._threads = Ranks(index, count), compute, threads
        self._progress = 0.0

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
        self._backend = LocalBackend(device, self._compute, EngineModels(device, self._compute, self._ranks))
        return device.type

    @ray.method(concurrency_group="watch")
    def progress(self) -> float:
        """Of the present call: bytes that were read, or the share of the work that is done."""
        return self._progress

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        """The backend's method. What it gives is the same on all ranks, so only the first one sends it."""
        self._progress = 0.0
        told = [self._add if method in TOLD_BYTES else self._set] if method not in ("save", "publish", "adopt") else []
        try:
            result = getattr(self._backend, method)(*given, *told)
        except TrainerError as error:
            return Failure.of(error)
        return result if self._ranks.index == 0 else None

    def _add(self, count: int) -> None:
        self._progress += count

    def _set(self, share: float) -> None:
        self._progress = share


Rank: Any = ray.remote(concurrency_groups={"watch": 1})(_Rank)
