# SPDX-License-Identifier: Apache-2.0
"""Libraries of npm, whose tests are files of tape: each is played by Node in a process of its own.

R2: a process ends at its deadline with all that it started. R3: a test that is not heard of has not passed. The
program in Node is the bundle of services/libs/swe/src/javascript."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from whetstone_tasks import REPO, SITE, WORKSPACE
from whetstone_tasks.changes import Change
from whetstone_tasks.outcome import Outcome, Request, note, records

PROGRAM = WORKSPACE / "tool" / "javascript.cjs"
# Code that is put together of texts could take any name.
NODE = ("node", "--no-warnings", "--disallow-code-generation-from-strings", str(PROGRAM))
HELPER_SECONDS = 60
COUNT = re.compile(r" \(\d+\)$")
"""Of a test's assertions, at the end of its id."""


def require() -> None:
    """Raises where Node cannot be run."""
    subprocess.run(["node", "-e", "0"], check=True, capture_output=True, timeout=HELPER_SECONDS, env=_environment())


def changes_in(source: bytes) -> list[Change]:
    return [Change(**row) for row in json.loads(_help("changes", source))]


def added(before: str, after: str) -> list[str]:
    """What of it a file has more often than before."""
    more = Counter(json.loads(_help("names", after.encode())))
    more.subtract(json.loads(_help("names", before.encode())))
    return sorted(name for name, count in more.items() if count > 0)


def run_tests(request: Request) -> Outcome:
    """Plays files of tests, one after the other."""
    deadline = time.monotonic() + request.seconds
    outcome = Outcome(finished=True)
    for file in _files(request):
        left = max(1, request.cpu_seconds - int(outcome.cpu_seconds))
        _play(file, outcome, request.watch, deadline, left)
        _settle(outcome, request, file)
        failed = sum(how == "failed" for how in outcome.results.values())
        if not outcome.finished or (request.max_failures and failed >= request.max_failures):
            break
    return outcome


def _play(file: str, outcome: Outcome, is_watched: bool, deadline: float, cpu_seconds: int) -> None:
    reading, writing = os.pipe()
    outcome.finished = False
    child = subprocess.Popen(
        [*NODE, "run", file, str(writing), *(["watch"] if is_watched else [])],
        cwd=REPO,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
        preexec_fn=_limited(cpu_seconds),
    )
    os.close(writing)
    for record in records(reading, deadline):
        match record:
            case {"crash": str(message)}:
                outcome.messages[file] = message
                outcome.finished = True  # It came to an end of its own: what was not heard of has not passed (R3).
            case _:
                note(outcome, record)
        if outcome.finished:
            break
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # R2
    usage = os.wait4(child.pid, 0)[2]
    child.returncode = 0
    outcome.cpu_seconds += usage.ru_utime + usage.ru_stime


def _settle(outcome: Outcome, request: Request, file: str) -> None:
    """Of tests that are asked for: what did not pass has failed, under whatever number of assertions it went."""
    if request.only is None:
        return
    said = {COUNT.sub("", test): message for test, message in outcome.messages.items()}
    played = {test for test in outcome.results if _file_of(test) == file}
    for test in played - request.only:
        del outcome.results[test]
    for test in (each for each in request.only if _file_of(each) == file):
        if outcome.results.get(test) != "passed":
            outcome.results[test] = "failed"
            outcome.messages.setdefault(test, said.get(COUNT.sub("", test), "") or outcome.messages.get(file, ""))


def _files(request: Request) -> list[str]:
    if request.only is not None:
        return sorted({_file_of(test) for test in request.only})
    return [file for test in request.suite.tests for file in _files_in(test)]


def _files_in(path: str) -> list[str]:
    """A folder's own files: what lies deeper is what they use."""
    if (REPO / path).is_dir():
        return sorted(str(file.relative_to(REPO)) for file in (REPO / path).glob("*.js"))
    return [path]


def _file_of(test: str) -> str:
    return test.split("::")[0]


def _limited(cpu_seconds: int) -> Callable[[], None]:
    def limit() -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))

    return limit


def _help(word: str, source: bytes) -> bytes:
    command = [*NODE, word]
    options = {"check": True, "capture_output": True, "timeout": HELPER_SECONDS}
    return subprocess.run(command, input=source, env=_environment(), **options).stdout


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    # At level C the settings of OpenSSL cannot be read, without which Node does not start.
    return {**kept, "NODE_PATH": str(SITE / "node_modules"), "OPENSSL_CONF": "/dev/null"}
