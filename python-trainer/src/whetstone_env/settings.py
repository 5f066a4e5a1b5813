# SPDX-License-Identifier: Apache-2.0
"""Settings of the service: WHETSTONE_* variables, as the other services have them; flags win over them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

RANGES = {
    "slots": (1, 10_000),
    "memory_mib": (64, 1 << 20),
    "port": (0, 65_535),
    "health_port": (0, 65_535),
    "metrics_port": (0, 65_535),
}
LONGEST_MS = 7 * 24 * 3_600_000


def _setting(default: int, about: str) -> int:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Settings:
    """The numbers, each with a flag and a variable of its name."""

    slots: int = _setting(64, "episodes at once, each in a process of its own; one more is refused until one ends")
    call_timeout_ms: int = _setting(60_000, "longest reset or step; a longer one hangs, and its process is ended")
    close_timeout_ms: int = _setting(5_000, "how long an environment may take to close")
    idle_timeout_ms: int = _setting(900_000, "an episode that nobody asks anything for this long is closed")
    session_timeout_ms: int = _setting(3_600_000, "longest episode")
    drain_ms: int = _setting(0, "at SIGTERM episodes may go on for so long before they are handed back")
    memory_mib: int = _setting(2_048, "most memory of one episode's process")
    metrics_port: int = _setting(0, "serves /metrics for Prometheus; 0: off")
    health_port: int = _setting(0, "answers gRPC health in plain text, for probes; 0: off")


@dataclass(frozen=True)
class Command:
    """What was asked for."""

    targets: Sequence[str]
    host: str
    port: int
    tls_path: str | None
    log_level: str
    settings: Settings


def read_command(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> Command:
    """Ends the process with status 2 and the flag or variable at fault."""
    parser = argparse.ArgumentParser(
        prog="python -m whetstone_env",
        description="Serves environments in Python to jobs. MODULE is a dotted name or a .py file; :NAME picks one "
        "environment of it. gymnasium, reasoning-gym, textarena and verifiers serve those of the packages.",
    )
    host = environment.get("WHETSTONE_HOST", "127.0.0.1")
    port = environment.get("WHETSTONE_GRPC_PORT", "9083")
    parser.add_argument("targets", nargs="+", metavar="MODULE[:NAME]")
    parser.add_argument("--listen", default=f"{host}:{port}", metavar="HOST:PORT", help="port 0: any free one")
    for each in fields(Settings):
        preset = environment.get(f"WHETSTONE_{each.name.upper()}", str(each.default))
        flag, about = "--" + each.name.replace("_", "-"), f"{each.metadata['about']} (default: {each.default})"
        parser.add_argument(flag, default=preset, help=about)
    found = parser.parse_args(arguments)

    def whole(name: str, text: str) -> int:
        least, most = RANGES.get(name, (0 if name == "drain_ms" else 1, LONGEST_MS))
        if text.isdecimal() and least <= int(text) <= most:
            return int(text)
        flag = "--listen" if name == "port" else "--" + name.replace("_", "-")
        return parser.error(f"{flag}: must be a whole number from {least} to {most}, not {text!r}")

    numbers = {each.name: whole(each.name, getattr(found, each.name)) for each in fields(Settings)}
    listen_host, _, listen_port = found.listen.rpartition(":")
    return Command(
        found.targets,
        listen_host or "127.0.0.1",
        whole("port", listen_port),
        environment.get("WHETSTONE_TLS_PATH"),
        environment.get("WHETSTONE_LOG_LEVEL", "info"),
        Settings(**numbers),
    )
