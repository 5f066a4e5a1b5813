# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU build as a server of the same wire, started with what a fleet's pod gives it (containers.ts)."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

# It reads half of PyTorch, and compiles.
_READY_S = 300.0


@contextlib.contextmanager
def vllm_served(environment: Path, folder: Path, threads: int, most: int) -> Iterator[tuple[int, int]]:
    """Yields (port, process id) of a vLLM for `most` requests at a time. Raises RuntimeError with its last words."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(environment / "bin/vllm"), "serve", str(folder), "--host=127.0.0.1", f"--port={port}"]
    command += ["--served-model-name=policy", "--dtype=float32", "--generation-config=vllm", "--enable-scale-out"]
    command += ["--logprobs-mode=processed_logprobs", "--enable-prompt-tokens-details", "--api-server-count=1"]
    command += ["--enforce-eager", "--block-size=32", f"--max-num-seqs={most}"]
    variables = {
        "PATH": f"{environment.absolute() / 'bin'}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **variables}, start_new_session=True
        )
        try:
            _wait(process, port, Path(log.name))
            yield port, process.pid
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.5)
    raise RuntimeError(f"vLLM does not answer: {log.read_text()[-3000:]}")
