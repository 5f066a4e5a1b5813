# SPDX-License-Identifier: Apache-2.0
"""Obeys the newest controller: a process that slept must not undo what its successor did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from whetstone_engine.errors import ApiError

HEADER = "Whetstone-Epoch"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class EpochFence:
    """Refuses callers of an older epoch than the highest heard, and callers without one once any was heard.

    The epoch is a whole number in the header Whetstone-Epoch. Engines that do not know it ignore it (IEP/1).
    """

    def __init__(self) -> None:
        self.highest = 0

    def fenced(self, handler: Handler) -> Handler:
        """The handler, behind the fence."""

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            self.check(request.headers.get(HEADER))
            return await handler(request)

        return handle

    def check(self, header: str | None) -> None:
        """Raises ApiError 409 (StaleEpoch) for an epoch that is over, 400 for one that is no number."""
        epoch = _parse(header)
        if epoch < self.highest:
            raise ApiError(409, f"epoch {epoch} is over: a controller of epoch {self.highest} leads", "StaleEpoch")
        self.highest = epoch


def _parse(header: str | None) -> int:
    if header is None:
        return 0
    if not (header.isascii() and header.isdigit()) or len(header) > 20:
        raise ApiError(400, f"{header!r} is not a whole number", "Bad Request", f"header.{HEADER}")
    return int(header)
