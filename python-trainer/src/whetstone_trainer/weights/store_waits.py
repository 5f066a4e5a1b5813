# SPDX-License-Identifier: Apache-2.0
"""An object store that is full, refuses or is away: told to people, and waited out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_store.errors import StoreError
from whetstone_store.transfer import TransferError
from whetstone_trainer.weights.disk_space import Say

T = TypeVar("T")

_SAY_EVERY_S = 0.25
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0


def patiently_ask(act: Callable[[], T], say: Say) -> T:
    """Repeats `act` until the store does it; whatever was done before may be done again.

    Ends only by success, by another error, or by an exception of `say`.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            return act()
        except (StoreError, TransferError) as error:
            if is_damage(error):
                raise
            notice = store_notice(error)
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            say(notice)
            time.sleep(_SAY_EVERY_S)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 2)


def is_damage(error: Exception) -> bool:
    """Whether the store answered, and what it has is not whole."""
    return (isinstance(error, TransferError) and error.is_gone) or (isinstance(error, StoreError) and error.is_damage)


def store_notice(error: Exception) -> wire.Notice:
    """What the job's status says meanwhile."""
    is_full = isinstance(error, StoreError) and error.is_full
    if is_full:
        message = f"No space left in the object store: {error}. Free some; training goes on by itself."
        return wire.Notice(reason="ObjectStoreFull", message=message)
    message = f"The object store fails: {error}. It is asked again; training goes on by itself."
    return wire.Notice(reason="ObjectStoreFailing", message=message)
