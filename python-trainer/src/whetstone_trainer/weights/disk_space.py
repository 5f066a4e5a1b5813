# SPDX-License-Identifier: Apache-2.0
"""A full disk: recognised however it is wrapped, told to people, and waited out."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from whetstone.trainer.v1 import trainer_pb2 as wire

T = TypeVar("T")
# Called with what to tell; may raise to end the wait.
Say = Callable[[wire.Notice], None]

_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
# safetensors tells of the system's error in words and a number.
_WORDS = re.compile(r"no space left on device|disk quota exceeded|\(os error (28|122)\)", re.IGNORECASE)
_SAY_EVERY_S = 0.25
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 5.0
# A quota, or blocks that only root may use, are not in what the file system calls free.
_TRY_ANYWAY_S = 20.0


def is_out_of_space(error: BaseException | None) -> bool:
    """Whether something failed for want of disk space."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _ERRNOS:
            return True
        if _WORDS.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def patiently_write(write: Callable[[], T], path: Path, needed_bytes: int, say: Say) -> T:
    """Repeats `write` until there was space for it. `write` must leave nothing behind when it fails.

    Ends only by success, by another error, or by an exception of `say`.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            return write()
        except Exception as error:
            if not is_out_of_space(error):
                raise
        _wait(path, needed_bytes, wait_s, say)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 2)


def _wait(path: Path, needed_bytes: int, wait_s: float, say: Say) -> None:
    """At least `wait_s`, and then until the disk has the space."""
    started = time.monotonic()
    while True:
        say(disk_full(path, needed_bytes))
        time.sleep(_SAY_EVERY_S)
        waited = time.monotonic() - started
        if waited >= wait_s and (free_bytes(path) >= needed_bytes or waited >= _TRY_ANYWAY_S):
            return


def disk_full(path: Path, needed_bytes: int) -> wire.Notice:
    message = (
        f"No space left on the disk of {mount_point(path)}: {path} needs about {_mib(needed_bytes)}, "
        f"{_mib(free_bytes(path))} are free. Free some; training goes on by itself."
    )
    return wire.Notice(reason="DiskFull", message=message)


def free_bytes(path: Path) -> int:
    status = os.statvfs(_existing(path))
    return status.f_bavail * status.f_frsize


def mount_point(path: Path) -> Path:
    """The folder at which the disk of `path` is mounted."""
    here = _existing(path).resolve()
    while not here.is_mount():
        here = here.parent
    return here


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
