# SPDX-License-Identifier: Apache-2.0
"""The trainer's server of weights alone, over a run folder, until standard input closes. Prints its URL.

With `--groups` engines that ask at the same time get a version by broadcast.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(SOURCE.parents[1] / "proto/gen/python")]

from whetstone_trainer.service.weight_groups import WeightGroups  # noqa: E402
from whetstone_trainer.service.weights_server import ServedRun, WeightsServer  # noqa: E402
from whetstone_trainer.weights.run_folder import RunFolder  # noqa: E402

UID = "bench"


async def main(root: Path, has_groups: bool) -> None:
    run = RunFolder(root, root / "weights/v1")
    groups = WeightGroups("127.0.0.1") if has_groups else None
    server = WeightsServer(lambda: ServedRun(UID, run, has_groups), None, groups)
    url = await server.start("127.0.0.1", 0)
    print(f"{url}/weights/{UID}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), "--groups" in sys.argv[2:]))
