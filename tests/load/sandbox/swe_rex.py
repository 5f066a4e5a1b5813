"""What SWE-ReX's local deployment takes, one JSON line: `swe_rex.py OPENS AT_ONCE`. It isolates from nothing: a shell a session, on pexpect.

An open is a deployment with a session of bash; a command is `true` in it; `at_once` sessions are opened sixteen at a time.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

AT_A_TIME = 16
# Its own second is too short when sixteen start at a time.
STARTUP_SECONDS = 60
QUIET = logging.getLogger("quiet")
QUIET.setLevel(logging.CRITICAL)


async def open_session() -> LocalDeployment:
    deployment = LocalDeployment(logger=QUIET)
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest(startup_timeout=STARTUP_SECONDS))
    return deployment


async def times(count: int, work: Callable[[], Awaitable[Any]]) -> tuple[dict[str, float], list[Any]]:
    """Milliseconds of each, one after the other, and what was returned."""
    taken, results = [], []
    for _ in range(count):
        started = time.perf_counter()
        results.append(await work())
        taken.append(1000 * (time.perf_counter() - started))
    taken.sort()
    at = lambda share: round(taken[min(count - 1, int(count * share))], 1)  # noqa: E731
    return {"p50Ms": at(0.5), "p99Ms": at(0.99)}, results


async def main(opens: int, at_once: int) -> None:
    opened, sessions = await times(opens, open_session)
    first = sessions[0]
    commands, _ = await times(opens, lambda: first.runtime.run_in_session(BashAction(command="true")))
    for session in sessions:
        await session.stop()
    before, started = available_mib(), time.perf_counter()
    limit = asyncio.Semaphore(AT_A_TIME)

    async def bounded() -> LocalDeployment:
        async with limit:
            return await open_session()

    many = await asyncio.gather(*(bounded() for _ in range(at_once)))
    seconds = time.perf_counter() - started
    each = round((before - available_mib()) / at_once, 1)
    for session in many:
        await session.stop()
    together = {"sessions": at_once, "perSecond": round(at_once / seconds, 1), "mebibytesEach": each}
    print(json.dumps({"open": opened, "exec": commands, "atOnce": together}))


def available_mib() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
