# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_env MODULE[:NAME]`: an env-runner of environments in Python."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from whetstone_env.errors import LoadError
from whetstone_env.server import start_server
from whetstone_env.settings import Command, read_command
from whetstone_logs import LEVELS, log_to_stderr, stop_with_parent

log = logging.getLogger("whetstone_env")


def main() -> None:
    command = read_command()
    log_to_stderr("env-runner-python", LEVELS[command.log_level])
    try:
        failed = asyncio.run(serve(command))
    except (LoadError, OSError) as error:
        sys.exit(f"whetstone_env: {error}")
    logging.shutdown()
    sys.exit(1 if failed else 0)


async def serve(command: Command) -> bool:
    """Runs until SIGTERM, SIGINT, or, when supervised, until standard input closes. True: it could not go on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if os.environ.get("WHETSTONE_SUPERVISED") == "1":
        stop_with_parent(loop, stop)
    server = await start_server(command)
    log.info("ready", extra={"host": command.host, "port": server.port, "kinds": server.kinds})
    failing, stopping = asyncio.ensure_future(server.failed()), asyncio.ensure_future(stop.wait())
    await asyncio.wait([failing, stopping], return_when=asyncio.FIRST_COMPLETED)
    has_failed = failing.done()
    if has_failed:
        log.error("fork_server_ended", extra={"status": failing.result()})
    await server.close()
    log.info("stopped")
    return has_failed


if __name__ == "__main__":
    main()
