# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""The Ray cluster and the ranks on it: started, watched, ended."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import ray
import torch
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from whetstone_trainer.backends.ranked import Failure, OnProgress, rank_lost
from whetstone_trainer.backends.verl.rank import Rank
from whetstone_trainer.contract.errors import TrainerError

log = logging.getLogger("whetstone_trainer")
# Room on the cluster, and processes that have imported what they need.
START_S = 300.0
POLL_S = 0.25
# Who ends the trainer gives it a few seconds: for Ray to end by itself, and for processes that were told to end.
SHUTDOWN_S = 2.0
END_S = 0.5
# Of a Ray that is started in place: the rows of a batch, once.
OBJECT_STORE_BYTES = 1 << 30

FOLDER = "whetstone-ray-"


class RayRanks:
    """So many ranks, one device each. After any error all of them are ended: half of a step may be done."""

    def __init__(self, count: int, compute: torch.dtype, hang_s: float) -> None:
        """`hang_s`: a rank that does not answer for so long is taken for lost. Each has as many threads as we have."""
        self._hang_s, self._count = hang_s, count
        self._room = _room(count)
        self._actors: list[Any] = []
        try:
            place = PlacementGroupSchedulingStrategy(self._room)
            needs = {"num_gpus": 1} if _has_gpus() else {"num_cpus": 1}
            kind = Rank.options(scheduling_strategy=place, **needs)
            self._actors = [kind.remote(index, count, compute, torch.get_num_threads()) for index in range(count)]
            host, port = self._get(self._actors[0].address.remote(), START_S)
            joined = [actor.join.remote(host, port, 2 * hang_s) for actor in self._actors]
            self.device: str = self._get(joined, START_S)[0]
        except BaseException:
            self.end()
            raise

    def call(self, method: str, given: tuple[Any, ...], on_progress: OnProgress) -> Any:
        """The backend's method on all ranks; what the first gives. Raises TrainerError; ends all ranks then."""
        try:
            sent = ray.put(given)
            return self._wait([actor.call.remote(method, sent) for actor in self._actors], on_progress)
        except BaseException:
            self.end()
            raise

    def _wait(self, calls: list[Any], on_progress: OnProgress) -> Any:
        pending = list(calls)
        while pending:
            done, pending = ray.wait(pending, timeout=POLL_S)
            for outcome in self._get(done, self._hang_s):
                if isinstance(outcome, Failure):
                    raise outcome.error()
            if pending:
                on_progress(self._get([actor.progress.remote() for actor in self._actors], self._hang_s)[0])
        return self._get(calls[0], self._hang_s)

    def _get(self, what: Any, seconds: float) -> Any:
        try:
            return ray.get(what, timeout=seconds)
        except GetTimeoutError as error:
            raise rank_lost(f"did not answer for {seconds:g} s") from error
        except RayTaskError as error:
            # It goes on living, but half of a step may be done there.
            raise TrainerError("INTERNAL", f"a rank of the trainer failed: {error.cause!r}") from error
        except RayError as error:
            raise rank_lost(f"ended: {_why(error)}") from error

    def end(self) -> None:
        """Safe to call again."""
        for actor in self._actors:
            with contextlib.suppress(RayError, ValueError):
                ray.kill(actor)
        self._actors = []
        with contextlib.suppress(RayError, ValueError):
            remove_placement_group(self._room)


def _why(error: RayError) -> str:
    """What Ray says of an actor's end, without its ids: first that it ended, last what became of process or node."""
    first, *rest = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    at = [f"on {line.removeprefix('ip: ')}" for line in rest if line.startswith("ip: ")]
    causes = [line for line in rest if line.startswith(("The actor", "The worker", "The node"))]
    return ", ".join([causes[-1] if causes else first, *at]).replace(".,", ",").rstrip(".")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _has_gpus() -> bool:
    return ray.cluster_resources().get("GPU", 0) > 0


def _room(count: int) -> PlacementGroup:
    """All or nothing, near each other where there is a choice. Raises TrainerError UNAVAILABLE without it in time."""
    unit = "GPU" if _has_gpus() else "CPU"
    group = placement_group([{unit: 1}] * count, strategy="PACK")
    if not group.wait(START_S):
        there = ray.cluster_resources().get(unit, 0)
        remove_placement_group(group)
        raise TrainerError(
            "UNAVAILABLE",
            f"the Ray cluster has no room for {count} ranks of 1 {unit}: {there:g} of them are there, some are taken. "
            "Add workers, or start the trainer with fewer --ranks.",
        )
    return group


def remove_left_behind() -> None:
    """Folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*-*"):
        number = folder.name.removeprefix(FOLDER).partition("-")[0]
        if number.isdigit() and not Path("/proc", number).exists():
            shutil.rmtree(folder, ignore_errors=True)


class RayCluster:
    """The cluster that RAY_ADDRESS names, else one of this machine, which ends with this process."""

    def __init__(self, cpus: int) -> None:
        """`cpus`: of a cluster that is started here. Raises TrainerError UNAVAILABLE.

        Call it in the main thread before there are others, and before signals are handled: Ray forks, and takes them.
        """
        self._folder = ""
        self._daemons: list[psutil.Process] = []
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray gives way to everything else by default, and a whole job waits for its trainer.
        os.environ.setdefault("RAY_worker_niceness", "0")
        quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
        try:
            if os.environ.get("RAY_ADDRESS"):
                ray.init(address="auto", log_to_driver=False, configure_logging=False)
                return
            # Ranks import what this process does.
            os.environ["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
            remove_left_behind()
            self._folder = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
            own = {"num_cpus": cpus, "object_store_memory": OBJECT_STORE_BYTES, "_temp_dir": self._folder}
            beside = psutil.Process().children()
            ray.init(address="local", **own, **quiet)
            self._daemons = [one for one in psutil.Process().children() if one not in beside]
        except (RayError, ConnectionError, RuntimeError, TimeoutError) as error:
            raise TrainerError("UNAVAILABLE", f"Ray cannot be reached: {_first_line(error)}") from error

    @property
    def is_own(self) -> bool:
        """Whether it was started here, and ends with this process."""
        return self._folder != ""

    def close(self) -> None:
        """Returns once nothing is left of what was started here. Safe to call again.

        Ray waits a minute for daemons that are gone: whoever ends the trainer's process group ends them, too.
        """
        started = _with_children(self._daemons)
        shutdown = threading.Thread(target=ray.shutdown, daemon=True)
        shutdown.start()
        shutdown.join(SHUTDOWN_S if self.is_own else None)
        _end(started)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _with_children(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = list(processes)
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += one.children(recursive=True)
    return found


def _end(processes: list[psutil.Process]) -> None:
    """Ray itself waits a second for its daemons, and leaves it to ranks to notice that those are gone."""
    for one in _still_running(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    _still_running(processes)


def _still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end in time."""
    deadline = time.monotonic() + END_S
    while (running := [one for one in processes if _runs(one)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return running


def _runs(process: psutil.Process) -> bool:
    """One that has ended stays a zombie until its parent, which may be another by then, has asked for its status."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
