# SPDX-License-Identifier: Apache-2.0
"""Log lines of the Python services on stderr, as in services/libs/telemetry: one JSON object a line. And their end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from datetime import UTC, datetime

# Of services/libs/telemetry.
LEVELS = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "error": 40, "fatal": 50, "silent": 100}
_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """`log.info("event_name", extra={...})` → one line of JSON."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "level": "warn" if record.levelname == "WARNING" else record.levelname.lower(),
            "time": stamp.replace("+00:00", "Z"),
            "component": self._component,
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _PLAIN},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(component: str, level: int) -> None:
    """Everything from `level` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(component))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Whatever starts this process holds its standard input; when that closes, nobody is left to stop it."""

    def on_input() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, on_input)
