# SPDX-License-Identifier: Apache-2.0
"""Sleep and wake, with vLLM's routes. This engine keeps its memory: it samples nothing and forgets what it cached."""

from __future__ import annotations

from typing import Any

from whetstone_engine.engine import Engine
from whetstone_engine.errors import ApiError

# What vLLM gives back by level, and takes again by name.
_GIVEN_BACK = {"0": ("scheduling",), "1": ("weights", "kv_cache"), "2": ("weights", "kv_cache")}
_TAGS = ("scheduling", "weights", "kv_cache")


class Sleep:
    """What is asleep of one engine. Weights are those of before, whatever the level, as with vLLM on a CPU."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asleep: set[str] = set()
        # A pause from before the sleep outlasts it: whoever ordered it has not ended it. vLLM ends it by waking up.
        self._resumes = False

    @property
    def asleep(self) -> bool:
        return bool(self._asleep)

    async def sleep(self, level: str, mode: str) -> dict[str, Any]:
        """Stops sampling; from level 1 on the caches are cleared. Raises ApiError 400 for an unknown level."""
        if level not in _GIVEN_BACK:
            raise ApiError(400, f"level {level!r} is not 0, 1 or 2", "Bad Request", "query.level")
        if not self._asleep:
            self._resumes = not self._engine.scheduler.paused
        await self._engine.pause(mode, clear_cache=level != "0")
        self._asleep |= set(_GIVEN_BACK[level])
        return {"status": "sleeping", "level": int(level)}

    async def wake_up(self, tags: list[str]) -> dict[str, Any]:
        """Takes back what the tags name, or everything. Idempotent. Raises ApiError 400 for an unknown tag."""
        unknown = [tag for tag in tags if tag not in _TAGS]
        if unknown:
            raise ApiError(400, f"tag {unknown[0]!r} is not one of {', '.join(_TAGS)}", "Bad Request", "query.tags")
        was_asleep, self._asleep = self.asleep, self._asleep - set(tags or _TAGS)
        if was_asleep and not self._asleep and self._resumes:
            await self._engine.resume()
        return {"status": "sleeping" if self._asleep else "awake", "tags": tags or None}

    def must_be_awake(self) -> None:
        """Raises ApiError 400: an engine that sleeps cannot sample."""
        if self._asleep:
            raise ApiError(400, "the engine is asleep: POST /wake_up first")
