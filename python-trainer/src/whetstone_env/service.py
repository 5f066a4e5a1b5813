# SPDX-License-Identifier: Apache-2.0
"""The calls of EnvironmentService."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whetstone.environments.v1 import environments_pb2 as wire
from whetstone.environments.v1 import environments_pb2_grpc as rpc

from whetstone_env.session import EnvironmentSession, Refused, Shared


class EnvironmentServicer(rpc.EnvironmentServiceServicer):
    """For jobs no other than services/env-runner, which serves the same contract."""

    def __init__(self, shared: Shared, kinds: Sequence[dict[str, Any]]) -> None:
        self._shared = shared
        self._kinds = [_described(kind) for kind in kinds]

    async def Describe(self, request: wire.DescribeRequest, context: Any) -> wire.DescribeResponse:
        """Of a job's module nothing is served here: such environments are TypeScript's."""
        slots, drain = self._shared.slots, self._shared.drain
        kinds = [] if request.HasField("module") else self._kinds
        return wire.DescribeResponse(kinds=kinds, slots=slots.total, slots_used=slots.used, draining=drain.draining)

    async def Drain(self, request: wire.DrainRequest, context: Any) -> wire.DrainResponse:
        drain, settings = self._shared.drain, self._shared.settings
        if request.undo:
            drain.undo()
        else:
            asked = request.deadline.ToTimedelta().total_seconds() if request.HasField("deadline") else None
            drain.start(settings.drain_ms / 1000 if asked is None else asked)
        return wire.DrainResponse(slots_used=self._shared.slots.used)

    async def Session(self, request_iterator: Any, context: Any) -> None:
        try:
            await EnvironmentSession(self._shared, context).run()
        except Refused as error:
            await context.abort(error.status, error.message)


def _described(kind: dict[str, Any]) -> wire.EnvironmentKind:
    capabilities = wire.Capabilities(concurrent=True, seedable=kind["seedable"])
    return wire.EnvironmentKind(
        kind=kind["kind"],
        description=kind["description"],
        args_schema_json=kind["args_schema_json"],
        action_schema_json=json.dumps({"type": "string"}),
        capabilities=capabilities,
    )
