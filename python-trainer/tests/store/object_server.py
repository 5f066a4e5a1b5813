# SPDX-License-Identifier: Apache-2.0
"""A real object store over a folder: versitygw, which the repository's script builds from its Go module, once."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from whetstone_store.location import parse_location
from whetstone_store.store import ObjectStore

SETUP = Path(__file__).parents[3] / "deploy/local/setup-object-store.sh"
BUCKET = "bucket"
ACCESS, SECRET = "owner", "owner's secret"
_READY_S = 20


class ObjectServer:
    """It may be stopped and started again at the same port; `root` is where its objects lie as files."""

    def __init__(self, program: str, root: Path) -> None:
        self._program, self.root = program, root
        (root / BUCKET).mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns once it answers."""
        listen = ["--port", f"127.0.0.1:{self.port}", "--access", ACCESS, "--secret", SECRET, "--health", "/health"]
        command = [self._program, "--quiet", *listen, "posix", str(self.root)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise TimeoutError("the object store did not start")

    def stop(self) -> None:
        """As a machine that is gone. Safe to call again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self, frozen: bool) -> None:
        """It takes connections, and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def file(self, name: str) -> Path:
        """Where the bytes of an object of `open_store` lie."""
        return self.root / BUCKET / "team" / name


@contextlib.contextmanager
def object_server(root: Path) -> Iterator[ObjectServer]:
    built = subprocess.run([SETUP], capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip(f"there is no object store: {built.stderr.strip()}")
    server = ObjectServer(built.stdout.strip(), root)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def as_client(server: ObjectServer, patch: pytest.MonkeyPatch, secret: str = SECRET) -> None:
    """What a process that uses it has in its environment."""
    patch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    patch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    patch.setenv("AWS_SECRET_ACCESS_KEY", secret)


def open_store(bucket: str = BUCKET) -> ObjectStore:
    return ObjectStore(parse_location(f"s3://{bucket}/team"))
