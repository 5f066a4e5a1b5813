# SPDX-License-Identifier: Apache-2.0
"""The process that imports the user's module once, and forks a worker from itself for each episode that needs one.

Started by whetstone_env.processes with the number of a socket's descriptor and, as JSON, what to serve. It says what
it serves, then answers one request at a time: `fork`, with the worker's end of its connection, and `end`. When the
service has gone it ends what it started. It runs none of the user's code after the import, so that it always answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from whetstone_env.define import Kind
from whetstone_env.errors import LoadError
from whetstone_env.load import load_kinds
from whetstone_env.worker import work

PR_SET_PDEATHSIG = 1


def main(descriptor: int, targets: list[str], memory_mib: int) -> None:
    control = socket.socket(fileno=descriptor)
    _die_with_parent(signal.SIGKILL)  # A module may take for ever to import.
    try:
        kinds = load_kinds(targets)
    except LoadError as error:
        control.sendall(_line({"error": str(error)}))
        return
    gc.collect()
    gc.freeze()  # What is there now stays shared with the workers.
    control.sendall(_line({"kinds": [kind.described() for kind in kinds.values()]}))
    _die_with_parent(0)
    children: set[int] = set()
    try:
        serve(control, kinds, memory_mib, children)
    finally:
        for pid in children:
            _end(pid)


def serve(control: socket.socket, kinds: Mapping[str, Kind], memory_mib: int, children: set[int]) -> None:
    """Until the service closes its end."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not text:
            return
        request = json.loads(text)
        if "fork" in request:
            try:
                if not descriptors:
                    raise OSError("too many open files")  # The kernel dropped it on its way.
                with socket.socket(fileno=descriptors[0]) as connection:
                    pid = os.fork()
                    if pid == 0:
                        control.close()
                        _run_worker(connection, kinds, memory_mib)
            except OSError as error:  # The machine has no more processes, or descriptors.
                control.sendall(_line({"error": str(error)}))
                continue
            children.add(pid)
            control.sendall(_line({"pid": pid}))
        else:
            pid = request["end"]
            children.discard(pid)
            control.sendall(_line({"status": _end(pid)}))


def _run_worker(connection: socket.socket, kinds: Mapping[str, Kind], memory_mib: int) -> None:
    """Never returns: nothing of the server's is to run in the worker."""
    try:
        os.setpgid(0, 0)  # What an environment starts ends with it.
        _die_with_parent(signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_mib << 20, memory_mib << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work(connection, kinds)
    except ConnectionError:
        pass  # The service has gone.
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(0)


def _end(pid: int) -> int:
    """Ends a worker and what it started. Its exit code; below zero: the signal that had ended it before."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    if not ended:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)  # It may not have made its group yet.
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _die_with_parent(number: int) -> None:
    """Linux only; elsewhere the end of the connection has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


if __name__ == "__main__":
    main(int(sys.argv[1]), **json.loads(sys.argv[2]))
