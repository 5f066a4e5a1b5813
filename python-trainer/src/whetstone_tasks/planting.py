# SPDX-License-Identifier: Apache-2.0
"""Plants bugs in a library and keeps those that its tests catch: a server that has pytest imported and forks for each
try.

It takes a request a line and answers with a line. `baseline` comes first and says which tests are stable; `changes`
lists what could be broken; `try` breaks it and says what came of it. The repository is as it was after each."""

import difflib
import itertools
import json
import math
import os
import sys
from collections import defaultdict
from dataclasses import dataclass

from whetstone_tasks import REPO
from whetstone_tasks.changes import Change
from whetstone_tasks.languages import language_of
from whetstone_tasks.outcome import Outcome, Request, Suite

MANY_TESTS = 400
"""A function that more tests call breaks too much to be a task."""

SHOWN_FAILING = 5
MORE_SECONDS = 3
TIMES = 3
"""So much longer than all tests take by themselves may a try compute."""
SLOWEST = 20
"""So much longer than it computes may a try last: it has to share the machine."""

Answer = dict[str, object]


@dataclass(frozen=True)
class Candidate:
    path: str
    change: Change
    tests: frozenset[str]


@dataclass(frozen=True)
class Limits:
    seconds: float
    """Of one run of all tests."""
    slow_seconds: float
    """Tests that take longer are left out."""
    usual_seconds: float
    """How long all tests take, where that is known."""


class Library:
    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._language = language_of(suite.language)
        self._stable: frozenset[str] = frozenset()
        self._touching: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._imported: frozenset[tuple[str, int]] = frozenset()
        self._candidates: list[Candidate] = []
        self._seconds = 0.0
        self._clock = itertools.count(1_000_000_000)

    def baseline(self, runs: int, limits: Limits, known: frozenset[str]) -> Answer:
        """Tests that pass in each of several runs and measure no time, and which functions they call. `known`: of
        earlier runs, if any."""
        outcomes = [
            self._language.run_tests(Request(self._suite, limits.seconds, int(limits.seconds), watch=run == 0))
            for run in range(runs)
        ]
        watched = outcomes[0]
        passed = [{test for test, result in each.results.items() if result == "passed"} for each in outcomes]
        slow = {test for test, took in watched.slow.items() if took > limits.slow_seconds}
        stable = set.intersection(*passed) - slow - watched.timing
        self._stable = frozenset(stable & known if known else stable)
        self._seconds = max([limits.usual_seconds, *(each.cpu_seconds for each in outcomes[1:])])
        self._imported = frozenset(watched.touched.get("", ()))
        for test in self._stable:
            for place in watched.touched.get(test, ()):
                self._touching[place].add(test)
        failing = {test: watched.messages.get(test, "") for test, how in watched.results.items() if how == "failed"}
        return {
            "stable": sorted(self._stable),
            "tests": len(set.union(*(set(each.results) for each in outcomes))),
            "seconds": self._seconds,
            "unfinished": sum(not each.finished for each in outcomes),
            "failing": dict(itertools.islice(failing.items(), SHOWN_FAILING)),
        }

    def changes(self, paths: frozenset[str]) -> Answer:
        self._candidates = []
        for path in sorted({path for path, _ in self._touching} & paths):
            for change in self._language.changes_in((REPO / path).read_bytes()):
                tests = self._touching.get((path, change.first_line), set())
                if 0 < len(tests) <= MANY_TESTS:
                    self._candidates.append(Candidate(path, change, frozenset(tests)))
        rows = [
            {"path": each.path, "function": each.change.function, "kind": each.change.kind, "line": each.change.line}
            | {"tests": len(each.tests)}
            for each in self._candidates
        ]
        return {"changes": rows}

    def attempt(self, numbers: list[int], max_failures: int) -> Answer:
        """Breaks some places at once. The tests that call them decide, since no other can notice; of a function that
        is called while the library is imported, that is not known, so all do."""
        chosen = [self._candidates[number] for number in numbers]
        sources = {each.path: (REPO / each.path).read_bytes() for each in chosen}
        broken = dict(sources)
        # From the last place to the first, so that positions stay right.
        for each in sorted(chosen, key=lambda candidate: candidate.change.start, reverse=True):
            broken[each.path] = each.change.apply(broken[each.path])
        try:
            for path, source in broken.items():
                self._write(path, source)
            is_imported = any((each.path, each.change.first_line) in self._imported for each in chosen)
            tests = self._stable if is_imported else frozenset.union(*(each.tests for each in chosen))
            outcome = self._run(tests, max_failures)
            verdict = _verdict(outcome, tests, max_failures)
        finally:
            for path, source in sources.items():
                self._write(path, source)
        if verdict != "caught":
            return {"verdict": verdict}
        failed = {test: outcome.messages.get(test, "") for test, how in outcome.results.items() if how == "failed"}
        edits = [edit for path in sorted(sources) for edit in _edits(path, sources[path], broken[path])]
        return {"verdict": verdict, "failed": failed, "edits": edits}

    def _run(self, tests: frozenset[str], max_failures: int) -> Outcome:
        # By what is computed, so that the same bugs are kept however busy the machine is.
        cpu_seconds = math.ceil(MORE_SECONDS + TIMES * self._seconds)
        seconds = SLOWEST * cpu_seconds
        request = Request(self._suite, seconds, cpu_seconds, only=tests, max_failures=max_failures + 1)
        return self._language.run_tests(request)

    def _write(self, path: str, source: bytes) -> None:
        """Each text has a time of its own: compiled code that is kept beside it is told apart by that."""
        file = REPO / path
        file.write_bytes(source)
        at = next(self._clock)
        os.utime(file, (at, at))


def _verdict(outcome: Outcome, tests: frozenset[str], max_failures: int) -> str:
    failed = sum(how == "failed" for how in outcome.results.values())
    if failed > max_failures:
        return "too many"
    if not outcome.finished:
        return "unfinished"
    if failed == 0:
        return "unnoticed"
    # A test that is skipped or gone is neither broken nor whole.
    others = [test for test in tests if outcome.results.get(test) not in ("passed", "failed")]
    unknown = set(outcome.results) - tests
    return "unclear" if others or any(outcome.results[test] == "failed" for test in unknown) else "caught"


def _edits(path: str, before: bytes, after: bytes) -> list[Answer]:
    """Blocks of lines that differ."""
    old, new = before.decode().splitlines(keepends=True), after.decode().splitlines(keepends=True)
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        {"path": path, "line": i + 1, "before": "".join(old[i:j]), "after": "".join(new[k:m])}
        for tag, i, j, k, m in blocks
        if tag != "equal"
    ]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    library: Library | None = None
    for line in sys.stdin:
        match json.loads(line):
            case {"do": "baseline", "suite": suite, "runs": runs, "stable": stable, **limits}:
                library = Library(Suite.of(suite))
                given = Limits(limits["seconds"], limits["slowSeconds"], limits["usualSeconds"])
                answer = library.baseline(runs, given, frozenset(stable))
            case {"do": "changes", "paths": paths} if library is not None:
                answer = library.changes(frozenset(paths))
            case {"do": "try", "numbers": numbers, "maxFailures": max_failures} if library is not None:
                answer = library.attempt(numbers, max_failures)
            case other:
                raise ValueError(f"no request: {other}")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
