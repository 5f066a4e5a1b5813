# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes of this machine, one a device: started, watched, ended."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Any

import torch

from whetstone_trainer.backends.local.rank_process import BEAT_S, RankSeat, run_rank
from whetstone_trainer.backends.ranked import Failure, OnProgress, rank_lost
from whetstone_trainer.contract.errors import TrainerError

# A process imports what it needs, and meets the others.
START_S = 300.0
END_S = 5.0
# After an error in one rank, so long another may be found to have ended.
ENDED_S = 1.0


@dataclass
class _Rank:
    process: Any
    connection: Connection
    heard_at: float


class ProcessRanks:
    """So many ranks, one device each. After any error all of them are ended: half of a step may be done."""

    def __init__(self, count: int, device: torch.device, compute: torch.dtype, hang_s: float) -> None:
        """`hang_s`: a rank that is silent for so long is taken for lost. Each has as many threads as we have."""
        self._hang_s = hang_s
        self._folder = tempfile.mkdtemp(prefix="whetstone-ranks-")
        self._senders = ThreadPoolExecutor(count, thread_name_prefix="to-rank")
        self._ranks: list[_Rank] = []
        self.device = device.type
        try:
            for index in range(count):
                seat = RankSeat(index, count, device.type, compute, torch.get_num_threads(), hang_s, self._folder)
                self._ranks.append(_started(seat))
            self._answers(START_S, lambda _: None)
        except BaseException:
            self.end()
            raise

    def call(self, method: str, given: tuple[Any, ...], on_progress: OnProgress) -> Any:
        """The backend's method on all ranks; what the first gives. Raises TrainerError; ends all ranks then."""
        try:
            message = pickle.dumps((method, given))
            sent = [self._senders.submit(rank.connection.send_bytes, message) for rank in self._ranks]
            # A process that stands still takes nothing out of its pipe.
            _, stuck = wait(sent, self._hang_s)
            if stuck:
                raise rank_lost(f"did not take a call within {self._hang_s:g} s")
            for one in sent:
                if isinstance(one.exception(), OSError):
                    raise rank_lost("ended before a call")
            return self._answers(self._hang_s, on_progress)
        except BaseException:
            self.end()
            raise

    def _answers(self, silence_s: float, on_progress: OnProgress) -> Any:
        """What the first rank answers, once all have. Raises the first error of any of them."""
        now = time.monotonic()
        for rank in self._ranks:
            rank.heard_at = now
        answers, waiting = dict[int, Any](), dict(enumerate(self._ranks))
        while waiting:
            wait_for_any([rank.connection for rank in waiting.values()], BEAT_S)
            for index, rank in list(waiting.items()):
                for kind, value in _received(index, rank):
                    if kind == "failed":
                        raise self._failed(index, value)
                    if kind == "answer":
                        answers[index] = _checked(value)
                        del waiting[index]
                    elif index == 0:
                        on_progress(value)
                if time.monotonic() - rank.heard_at > silence_s:
                    raise rank_lost(f"({index}) did not answer for {silence_s:g} s")
        return answers[0]

    def _failed(self, index: int, reason: str) -> TrainerError:
        """Of an error that is not the job's. The first that others see of a rank that ended is such an error, too."""
        sentinels = [rank.process.sentinel for rank in self._ranks]
        if wait_for_any(sentinels, ENDED_S):
            ended = next(number for number, rank in enumerate(self._ranks) if rank.process.exitcode is not None)
            return _ended(ended, self._ranks[ended])
        return TrainerError("INTERNAL", f"rank {index} of the trainer failed: {reason}")

    def end(self) -> None:
        """Safe to call again."""
        for rank in self._ranks:
            rank.process.kill()
        for rank in self._ranks:
            rank.process.join(END_S)
            rank.connection.close()
        self._ranks = []
        self._senders.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)


def _started(seat: RankSeat) -> _Rank:
    # A fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_rank, args=(seat, theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    return _Rank(process, ours, time.monotonic())


def _received(index: int, rank: _Rank) -> list[tuple[str, Any]]:
    """What it has sent since the last look. Raises TrainerError RankLost for a process that has ended."""
    found = []
    try:
        while rank.connection.poll():
            found.append(rank.connection.recv())
            rank.heard_at = time.monotonic()
    except (EOFError, OSError) as error:
        raise _ended(index, rank) from error
    return found


def _ended(index: int, rank: _Rank) -> TrainerError:
    rank.process.join(END_S)
    code = rank.process.exitcode
    return rank_lost(
        f"({index}) ended: {f'signal {-code}' if code is not None and code < 0 else f'exit status {code}'}"
    )


def _checked(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise answer.error()
    return answer
