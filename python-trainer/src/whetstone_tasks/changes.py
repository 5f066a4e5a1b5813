# SPDX-License-Identifier: Apache-2.0
"""A bug that can be planted: a change of a file's text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """One way to break a function."""

    kind: str
    function: str
    """Its name with that of its class: "Version.bump"."""
    first_line: int
    """Of the function with its decorators, as its code object has it."""
    line: int
    start: int
    end: int
    """Bytes of the file that are replaced."""
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]
