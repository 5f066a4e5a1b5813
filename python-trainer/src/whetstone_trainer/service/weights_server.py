# SPDX-License-Identifier: Apache-2.0
"""Published weights over HTTP, for engines that do not see the run folder.

    GET /weights/<job uid>/v<version>/<file>     with Range, so that a broken transfer goes on at its last byte
    POST /weights/<job uid>/v<version>/group     {"tensors": [indices in the manifest], "gpu": its identity, or ""}:
                                                 where engines meet that ask for the same (`weight_groups`)

Files go from the page cache to the socket as fast as the engine takes them: a slow one fills no memory here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from whetstone_models.manifest import is_below
from whetstone_tls import TlsIdentity
from whetstone_tls.identity import role_of_transport
from whetstone_trainer.service.weight_groups import WeightGroups
from whetstone_trainer.weights.run_folder import RunFolder

CALLERS = frozenset({"engine"})
# Transfers at a time; who comes beyond is told to come again.
MOST_TRANSFERS = 64
# Of one answer; an engine that is slower asks for the rest.
ANSWER_S = 600.0
# With certificates, bytes go through this process in parts of this size.
_CHUNK_BYTES = 1 << 20
_PATH = re.compile(r"/weights/(?P<uid>[^/]+)/v(?P<version>[1-9][0-9]{0,9})/(?P<file>.+)")
_CLOSE_S = 0.5


@dataclass(frozen=True)
class ServedRun:
    """The job that the trainer has."""

    uid: str
    folder: RunFolder
    # Whether its engines get versions by broadcasts, too.
    in_groups: bool = False


# None: the trainer has no job.
CurrentRun = Callable[[], ServedRun | None]


class WeightsServer:
    """A server of the trainer's process."""

    def __init__(self, current: CurrentRun, tls: TlsIdentity | None, groups: WeightGroups | None = None) -> None:
        """With `tls`, whoever calls must prove to be an engine. `groups`: None: there are none."""
        self._current, self._tls, self._groups = current, tls, groups
        self._transfers = 0
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> str:
        """The URL that it is served at. Raises OSError if the address is taken."""
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True, access_log=None), shutdown_timeout=_CLOSE_S
        )
        await self._runner.setup()
        context = self._tls.server_context() if self._tls else None
        await web.TCPSite(self._runner, host, port, ssl_context=context).start()
        return f"{'https' if self._tls else 'http'}://{host}:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """Breaks off what is being sent. Safe to call again."""
        if self._groups is not None:
            await self._groups.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._tls is not None and role_of_transport(request.transport) not in CALLERS:
            return web.Response(status=403, text="only engines may fetch weights")
        if request.method == "POST" and request.path.endswith("/group"):
            return await self._join(request)
        if request.method != "GET":
            return web.Response(status=405, text="only GET is served, and POST of a group")
        if self._transfers >= MOST_TRANSFERS:
            return web.Response(status=503, text="too many transfers at a time", headers={"Retry-After": "1"})
        return self._file(request.path)

    @contextlib.asynccontextmanager
    async def _transfer(self) -> AsyncIterator[None]:
        """Counted, and over in time."""
        self._transfers += 1
        try:
            async with asyncio.timeout(ANSWER_S):
                yield
        finally:
            self._transfers -= 1

    async def _join(self, request: web.BaseRequest) -> web.StreamResponse:
        found = self._find(request.path)
        if isinstance(found, web.Response):
            return found
        run, folder, _ = found
        if self._groups is None or not run.in_groups:
            return web.Response(
                status=404, text="the trainer has no --weights-group, or its job no transport broadcast"
            )
        try:
            body = json.loads(await request.read())
            indices, gpu = [int(index) for index in body["tensors"]], str(body["gpu"])
        except (ValueError, KeyError, TypeError) as error:
            return web.Response(status=400, text=f"not a request for a group: {error!r}")
        met = await self._groups.join(folder, indices, gpu)
        if met is None:
            return web.Response(status=503, text="another group is under way, or none could be formed; see the log")
        return web.json_response(met)

    def _file(self, path: str) -> web.StreamResponse:
        found = self._find(path)
        if isinstance(found, web.Response):
            return found
        _, folder, name = found
        file = folder / name
        if not file.is_file():
            return web.Response(status=404, text=f"{name} of version {folder.name[1:]} is not there, or not any more")
        return _FileAnswer(file, self._transfer)

    def _find(self, path: str) -> tuple[ServedRun, Path, str] | web.Response:
        """The run, the version's folder, and what is asked for of it."""
        match, run = _PATH.fullmatch(path), self._current()
        if match is None or not is_below(match["file"]):
            return web.Response(status=404, text="no such path")
        if run is None:
            return web.Response(status=503, text="the trainer is not ready for a job yet")
        if run.uid != match["uid"]:
            return web.Response(status=404, text=f"the trainer has job {run.uid}")
        return run, run.folder.weights(int(match["version"])), match["file"]


class _FileAnswer(web.FileResponse):
    """aiohttp sends a file while it prepares the answer."""

    def __init__(self, file: Path, within: Callable[[], contextlib.AbstractAsyncContextManager[None]]) -> None:
        super().__init__(file, chunk_size=_CHUNK_BYTES)
        self._within = within

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        async with self._within():
            return await super().prepare(request)
