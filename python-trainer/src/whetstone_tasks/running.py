# SPDX-License-Identifier: Apache-2.0
"""Runs pytest in a forked child and learns how each test went.

R1: what the library or a test prints is never read as a result: the child has no standard streams, and each of its
records begins with a token that it drew itself before it imported anything of the library. R2: a child ends at its
deadline with all that it started. R3: a test that is not heard of has not passed."""

import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from whetstone_tasks import REPO, SITE, hiding
from whetstone_tasks.outcome import Outcome, Record, Request, note, records

MAX_MESSAGE = 300
CLOCKS = (time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic, time.monotonic_ns)


def run_tests(request: Request) -> Outcome:
    """One run of pytest in a child."""
    deadline = time.monotonic() + request.seconds
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_child(request, writing)
    os.close(writing)
    outcome = Outcome()
    for record in records(reading, deadline):
        note(outcome, record)
        if outcome.finished:
            break
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # R2
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    usage = os.wait4(child, 0)[2]
    outcome.cpu_seconds = usage.ru_utime + usage.ru_stime
    return outcome


def _run_child(request: Request, writing: int) -> None:
    status = 1
    try:
        hiding.show()
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_seconds, request.cpu_seconds))
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        reporter = _Reporter(request, writing)
        os.chdir(REPO)
        paths = [str(REPO / path) for path in request.suite.paths]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, str(SITE)])  # For tests that start Python.
        limit = [f"--maxfail={request.max_failures}"] if request.max_failures else []
        # The library's own options may ask for plugins that are not there, or stop at the first failure.
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-o", "addopts=", "--rootdir=."]
        status = pytest.main([*options, *limit, *_files(request)], plugins=[reporter])
        reporter.end()
    finally:
        os._exit(status)


def _files(request: Request) -> list[str]:
    """Where the tests are: what is not asked for is not even imported."""
    if request.only is None:
        return list(request.suite.tests)
    return sorted({test.split("::")[0] for test in request.only})


class _Reporter:
    def __init__(self, request: Request, writing: int) -> None:
        token = os.urandom(16).hex().encode()
        self._request = request
        prefixes = tuple(str(REPO / package) for package in request.suite.packages)
        self._touched: set[tuple[str, int]] = set()
        touched = self._touched
        tests = tuple(str(REPO / test) for test in request.suite.tests)
        self._clocks: set[object] = set()
        clocks = self._clocks

        def say(record: Record) -> None:
            data = token + json.dumps(record).encode() + b"\n"
            while data:
                data = data[os.write(writing, data) :]

        def watch(frame, event, called) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(prefixes):
                touched.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
            elif event == "c_call" and called in CLOCKS and frame.f_code.co_filename.startswith(tests):
                clocks.add(called)

        self._say = say
        self._watch = watch
        os.write(writing, token + b"\n")

    def end(self) -> None:
        self._say({"end": True})

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        only = self._request.only
        if only is not None:
            items[:] = [item for item in items if item.nodeid in only]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        if not self._request.watch:
            yield
            return
        with self._watching():
            yield
        self._say({"imported": self._places()})

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not self._request.watch:
            yield
            return
        begin = time.process_time()
        with self._watching():
            yield
        seconds = time.process_time() - begin
        touched, timing = self._places(), bool(self._clocks)
        self._say({"test": item.nodeid, "touched": touched, "seconds": seconds, "timing": timing})

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        self._touched.clear()
        self._clocks.clear()
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _places(self) -> list[list[object]]:
        return [[os.path.relpath(path, REPO), line] for path, line in sorted(self._touched)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say({"test": report.nodeid, "result": "failed", "message": _message(report)})
        elif report.skipped or hasattr(report, "wasxfail"):
            self._say({"test": report.nodeid, "result": "skipped", "message": ""})
        elif report.when == "call":
            self._say({"test": report.nodeid, "result": "passed", "message": ""})


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = getattr(crash, "message", None) or str(report.longrepr)
    return text.strip().split("\n")[0][:MAX_MESSAGE]
