# SPDX-License-Identifier: Apache-2.0
"""Whether this runner takes episodes, and until when those that it has may go on.

D1: while it drains no session is opened. D2: at the deadline what is open is handed back, never before. D3: a deadline
that was said once is not moved later; only an order to end, which is final, can bring it forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Drain:
    """Its methods are called from the event loop."""

    def __init__(self, on_change: Callable[[bool], None]) -> None:
        self._on_change = on_change
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._final = False
        self._sessions: set[Callable[[], None]] = set()

    @property
    def draining(self) -> bool:
        return self._ends_at is not None

    def start(self, deadline_s: float) -> None:
        """From now."""
        loop = asyncio.get_running_loop()
        ends_at, before = loop.time() + deadline_s, self._ends_at
        if before is not None and before <= ends_at:
            return  # D3
        self._ends_at = ends_at
        if self._timer:
            self._timer.cancel()
        self._timer = loop.call_at(ends_at, self._hand_back)
        if before is None:
            self._on_change(True)

    def end(self, deadline_s: float) -> None:
        """The process is to end: from now on nothing takes it back."""
        self._final = True
        self.start(deadline_s)

    def undo(self) -> None:
        if self._final or self._ends_at is None:
            return
        if self._timer:
            self._timer.cancel()
        self._ends_at = None
        self._on_change(False)

    def watch(self, hand_back: Callable[[], None]) -> Callable[[], None]:
        """Calls at the deadline; the answer ends that."""
        self._sessions.add(hand_back)
        return lambda: self._sessions.discard(hand_back)

    def _hand_back(self) -> None:
        for hand_back in list(self._sessions):
            hand_back()
