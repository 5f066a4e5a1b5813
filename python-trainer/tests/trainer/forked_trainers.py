# SPDX-License-Identifier: Apache-2.0
"""Trainers as processes of their own, forked from one that has imported everything: that takes longer than a step.

Run as a program it reads JSON lines {port, nats, log}, starts a trainer for each and answers with its process id.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import grpc
import torch
from compute_device import DEVICE
from trainer_kit import free_port, until
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_trainer.__main__ import main as run_trainer

ROOT = Path(__file__).parents[2]


class Forked:
    """A trainer's process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    async def kill(self) -> None:
        """SIGKILL. Returns when it is gone."""

        async def is_gone() -> bool:
            try:
                os.kill(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                return True
            return False

        await until(is_gone, 30)


class Forker:
    """The process that they are forked from."""

    def __init__(self, child: subprocess.Popen, nats_url: str, log: Path) -> None:
        self._child, self._nats_url, self._log = child, nats_url, log

    @asynccontextmanager
    async def trainer(self) -> AsyncIterator[tuple[rpc.TrainerServiceStub, Forked]]:
        """It listens when it is given."""
        port = free_port()
        forked = Forked(self._fork(port))
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        try:
            async with asyncio.timeout(60):
                await channel.channel_ready()
            yield rpc.TrainerServiceStub(channel), forked
        finally:
            await channel.close()
            await forked.kill()

    def _fork(self, port: int) -> int:
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"port": port, "nats": self._nats_url, "log": str(self._log)}).encode() + b"\n")
        stdin.flush()
        return int(stdout.readline())


@contextmanager
def forker(nats_url: str, log: Path) -> Iterator[Forker]:
    """Strings are hashed in another way in each of them, as in programs that are started."""
    folders = [ROOT / "src", ROOT.parent / "proto" / "gen" / "python", Path(__file__).parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Forker(child, nats_url, log)
    finally:
        child.kill()
        child.wait(10)


def main() -> None:
    # The kernel takes away what has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The first optimizer of a process imports half of PyTorch.
    torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            become_trainer(**asked)
        print(pid, flush=True)


def become_trainer(port: int, nats: str, log: str) -> None:
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(written, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["whetstone_trainer", "--port", str(port), "--nats", nats, "--device", DEVICE.type]
    run_trainer()


if __name__ == "__main__":
    main()
