# SPDX-License-Identifier: Apache-2.0
"""The trainer's server of weights alone, over a run folder, until standard input closes. Prints its URL."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(SOURCE.parents[1] / "proto/gen/python")]

from whetstone_trainer.service.weights_server import WeightsServer  # noqa: E402
from whetstone_trainer.weights.run_folder import RunFolder  # noqa: E402

UID = "bench"


async def main(root: Path) -> None:
    run = RunFolder(root, root / "weights/v1")
    server = WeightsServer(lambda: (UID, run), None)
    url = await server.start("127.0.0.1", 0)
    print(f"{url}/weights/{UID}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
