# SPDX-License-Identifier: Apache-2.0
"""One rank of a job in a process of its own: the local backend on its part of the models."""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import signal
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist

from whetstone_logs import LEVELS, log_to_stderr
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.ranks import Ranks
from whetstone_trainer.backends.local.sharded import ShardedModels
from whetstone_trainer.backends.ranked import RankCalls

log = logging.getLogger("whetstone_trainer")

# Between two signs of life, which say how far the rank is.
BEAT_S = 0.25
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class RankSeat:
    """Which rank this is, and what all of them share."""

    index: int
    count: int
    # "cpu", or "cuda": rank i takes GPU i.
    device: str
    compute: torch.dtype
    threads: int
    hang_s: float
    # Where they meet.
    folder: str


def run_rank(seat: RankSeat, connection: Connection, parent: int) -> None:
    """Answers calls until the connection, or the parent, ends."""
    _end_with(parent)
    log_to_stderr(f"trainer-rank-{seat.index}", LEVELS[os.environ.get("WHETSTONE_LOG_LEVEL", "info")])
    # Ctrl-C reaches all processes of a terminal: the service says when a rank ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sending = threading.Lock()
    try:
        try:
            _answer_calls(seat, connection, sending)
        except EOFError:
            return
        except Exception as error:
            log.error("rank_failed", exc_info=error, extra={"rank": seat.index})
            _send(connection, sending, "failed", f"{type(error).__name__}: {error}")
            # The service says when it ends: it has to know which rank ended first.
            connection.recv_bytes()
    except (EOFError, OSError):
        return


def _answer_calls(seat: RankSeat, connection: Connection, sending: threading.Lock) -> None:
    calls = _joined(seat)
    _send(connection, sending, "answer", None)
    while True:
        method, given = pickle.loads(connection.recv_bytes())
        with _Beats(connection, sending, calls):
            answer = calls.call(method, given)
        _send(connection, sending, "answer", answer)


def _joined(seat: RankSeat) -> RankCalls:
    """Meets the other ranks, on this machine."""
    torch.set_num_threads(seat.threads)
    device = torch.device(seat.device)
    if seat.device == "cuda":
        torch.cuda.set_device(seat.index)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if seat.device == "cuda" else "gloo",
        init_method=f"file://{Path(seat.folder) / 'meeting'}",
        rank=seat.index,
        world_size=seat.count,
        timeout=timedelta(seconds=2 * seat.hang_s),
    )
    ranks = Ranks(seat.index, seat.count)
    backend = LocalBackend(device, seat.compute, ShardedModels(device, seat.compute, ranks))
    return RankCalls(backend, seat.index == 0)


class _Beats:
    """While it is open, says that this process lives and how far it is."""

    def __init__(self, connection: Connection, sending: threading.Lock, calls: RankCalls) -> None:
        self._connection, self._sending, self._calls = connection, sending, calls
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        try:
            while not self._ended.wait(BEAT_S):
                _send(self._connection, self._sending, "progress", self._calls.progress)
        except OSError:
            return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _send(connection: Connection, sending: threading.Lock, kind: str, value: object) -> None:
    with sending:
        connection.send((kind, value))


def _end_with(parent: int) -> None:
    """On Linux, even while it computes or stands still; elsewhere it sees that the connection has ended."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit("the trainer has ended")
