# SPDX-License-Identifier: Apache-2.0
"""What has to be known of a library's language: each is loaded where it is used, since sandboxes of the others have
not what it imports."""

from collections.abc import Callable
from dataclasses import dataclass

from whetstone_tasks.changes import Change
from whetstone_tasks.outcome import Outcome, Request


@dataclass(frozen=True)
class Language:
    run_tests: Callable[[Request], Outcome]
    changes_in: Callable[[bytes], list[Change]]
    """All ways to break a file's functions that leave it a program."""
    tampering: Callable[[str, str], list[str]]
    """What a file has more often than before of what reaches for the tests."""


def language_of(name: str) -> Language:
    """Raises where the sandbox lacks what runs it."""
    match name:
        case "python":
            from whetstone_tasks import mutations, running, tampering

            return Language(running.run_tests, mutations.changes_in, tampering.added)
        case "javascript":
            from whetstone_tasks import javascript

            javascript.require()
            return Language(javascript.run_tests, javascript.changes_in, javascript.added)
        case other:
            raise ValueError(f"no language: {other}")
