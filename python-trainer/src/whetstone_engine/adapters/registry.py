# SPDX-License-Identifier: Apache-2.0
"""Adapters that can be asked for, by name."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from whetstone_engine.adapters.adapter import Adapter, read_adapter
from whetstone_engine.errors import ApiError, invalid
from whetstone_engine.weights.building import Place
from whetstone_models.transformer import Transformer

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:/-]{0,127}")


class Adapters:
    """Belongs to the event loop's thread. Whoever is being answered by one that is unloaded is answered to the end."""

    def __init__(self, most: int, model_names: tuple[str, ...]) -> None:
        self._most, self._model_names = most, model_names
        self._by_name = dict[str, Adapter]()

    def get(self, name: str) -> Adapter | None:
        """The adapter of that name."""
        return self._by_name.get(name)

    def must_have(self, adapter: Adapter | None) -> None:
        """Raises ApiError 404 for one that has gone since its request was read: it may be of weights that have, too."""
        if adapter is not None and self._by_name.get(adapter.name) is not adapter:
            raise ApiError(404, f"The model `{adapter.name}` does not exist any more.", "NotFoundError", "model")

    def all(self) -> list[Adapter]:
        """In the order in which they were loaded."""
        return list(self._by_name.values())

    async def load(self, name: str, folder: Path, model: Transformer, place: Place) -> None:
        """Reads a folder while sampling goes on. Calls must follow one another.

        Raises ApiError 400 for a name that is taken or no name, and when there are as many as may be, 404 where there
        is no folder, ModelError for one that cannot be served.
        """
        if not NAME.fullmatch(name):
            raise invalid("lora_name", f"{name[:140]!r} is no name: letters, digits and ._@:/- (128 at most)")
        if name in self._by_name or name in self._model_names:
            raise invalid("lora_name", f"{name!r} is loaded already; unload it first, or take another name")
        if len(self._by_name) >= self._most:
            reason = f"{self._most} adapters are loaded, as many as may be (--max-adapters); unload one first"
            raise invalid("lora_name", reason)
        if not await asyncio.to_thread(folder.is_dir):
            reason = f"lora_path: {folder} is not a folder that this engine sees"
            raise ApiError(404, reason, "NotFoundError", "lora_path")
        self._by_name[name] = await asyncio.to_thread(read_adapter, name, folder, model, place)

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """Requests find none from now on; all of them are back if the block fails."""
        left, self._by_name = self._by_name, {}
        try:
            yield
        except BaseException:
            self._by_name = left
            raise

    def unload(self, name: str) -> None:
        """New requests do not find it any more. Raises ApiError 404."""
        if self._by_name.pop(name, None) is None:
            raise ApiError(404, f"The adapter `{name}` does not exist.", "NotFoundError", "lora_name")
