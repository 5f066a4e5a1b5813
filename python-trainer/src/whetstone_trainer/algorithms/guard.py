# SPDX-License-Identifier: Apache-2.0
"""Runs the code that a job brings along: what it raises names its own line; what never returns ends the process.

Nothing stops a thread of Python from outside. So a timer of the interpreter's own, which needs no lock that the code
may hold, writes where every thread is and ends the process. The next trainer finds that in the run folder and refuses
this job, and no other.
"""

from __future__ import annotations

import faulthandler
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from whetstone_trainer.contract.errors import TrainerError

T = TypeVar("T")
FIELD = "algorithm.policyGradient.module"


class AlgorithmError(TrainerError):
    """The job's own code failed. `fault`: where and how."""

    def __init__(self, fault: str, reason: str = "AlgorithmFailed") -> None:
        super().__init__("TRAINER_FAILED", f"{FIELD}: {fault}", reason=reason)
        self.fault = fault


@dataclass(frozen=True)
class Guard:
    """Of the code in the file `path`."""

    path: Path
    # Seconds that one call may take.
    hang_s: float

    def call(self, function: Callable[[], T]) -> T:
        """Raises AlgorithmError for whatever the function raises."""
        with self._watched():
            try:
                return function()
            except BaseException as error:  # SystemExit too: it would end the trainer.
                fault = self._fault(error)
        raise AlgorithmError(fault)

    def require_returned(self) -> None:
        """Raises AlgorithmError if a call never ended in an earlier process."""
        trace = self._trace.read_text(errors="replace") if self._trace.is_file() else ""
        if trace:
            found = re.search(rf'{re.escape(self.path.name)}", line (\d+) in (.+)', trace)
            place = f" at line {found[1]}, in {found[2]}" if found else ""
            raise AlgorithmError(
                f"a call did not return within {self.hang_s:.12g} s and stood still{place}; "
                f"the trainer was ended for that, see {self._trace}",
                "AlgorithmHung",
            )

    @property
    def _trace(self) -> Path:
        """Empty, unless a call never ended."""
        return self.path.with_suffix(".hung")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with self._trace.open("w") as file:
            faulthandler.dump_traceback_later(self.hang_s, file=file, exit=True)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()

    def _fault(self, error: BaseException) -> str:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, SyntaxError) and error.filename == str(self.path):
            return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)]
        return f"line {own[-1].lineno}, in {own[-1].name}: {said}" if own else str(error)
