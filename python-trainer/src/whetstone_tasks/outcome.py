# SPDX-License-Identifier: Apache-2.0
"""What is asked of a run of tests, and what it says.

A run happens in a child; each of its records begins with a token that it drew itself before it loaded anything of the
library (R1)."""

import json
import os
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_RECORD_BYTES = 1 << 20

Record = dict[str, object]


@dataclass(frozen=True)
class Suite:
    """How a library's tests are run."""

    paths: tuple[str, ...]
    """Folders of the repository that Python imports from."""
    tests: tuple[str, ...]
    """Files and folders of tests, as pytest's arguments."""
    packages: tuple[str, ...]
    """The library's own code, whose functions are watched and changed."""
    language: str = "python"
    """"python": pytest; "javascript": tape."""

    @staticmethod
    def of(given: dict[str, Any]) -> "Suite":
        """Lists are told as JSON has them."""
        return Suite(
            paths=tuple(given["paths"]),
            tests=tuple(given["tests"]),
            packages=tuple(given["packages"]),
            language=given.get("language", Suite.language),
        )


@dataclass
class Outcome:
    """What is known of the tests that were run."""

    results: dict[str, str] = field(default_factory=dict)
    """"passed", "failed" or "skipped"; tests that were not heard of are missing (R3)."""
    messages: dict[str, str] = field(default_factory=dict)
    """Why a test failed, in one line."""
    touched: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """File and first line of the functions that each test called, where that was asked for; "": while tests were
    imported."""
    slow: dict[str, float] = field(default_factory=dict)
    """Seconds that each test computes."""
    timing: set[str] = field(default_factory=set)
    """Tests that read a clock themselves: whether they pass may depend on what else the machine does."""
    finished: bool = False
    """pytest came to its end by itself."""
    cpu_seconds: float = 0.0
    """Of the child and all that it waited for: it does not depend on what else the machine does."""


@dataclass(frozen=True)
class Request:
    suite: Suite
    seconds: float
    """Longest time, and how much of it may be computed: the child ends at the first of both."""
    cpu_seconds: int
    only: frozenset[str] | None = None
    """Ids of tests. None: all."""
    max_failures: int = 0
    """Stop after so many; 0: never."""
    watch: bool = False
    """Note which functions each test calls."""


def records(reading: int, deadline: float) -> Iterator[Record]:
    """What the child says, up to its end or the deadline. The first line is its token (R1)."""
    token, unread = b"", b""
    while (left := deadline - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        data = os.read(reading, 1 << 16)
        if not data:
            return
        *lines, unread = (unread + data).split(b"\n")
        if len(unread) > MAX_RECORD_BYTES:
            return
        for line in lines:
            if not token:
                token = line
            elif line.startswith(token):
                yield json.loads(line[len(token) :])


def note(outcome: Outcome, record: Record) -> None:
    match record:
        case {"end": True}:
            outcome.finished = True
        case {"test": str(test), "result": str(result), "message": str(message)}:
            # A test that failed once, in its set-up, its call or its end, has failed.
            if outcome.results.get(test) != "failed":
                outcome.results[test] = result
            if message:
                outcome.messages.setdefault(test, message)
        case {"imported": list(imported)}:
            outcome.touched[""] = [(path, line) for path, line in imported]
        case {"test": str(test), "touched": list(touched), "seconds": float(seconds), "timing": bool(timing)}:
            outcome.touched[test] = [(path, line) for path, line in touched]
            outcome.slow[test] = seconds
            if timing:
                outcome.timing.add(test)
