# SPDX-License-Identifier: Apache-2.0
"""Asks another implementation for the numbers of proto/golden/ and compares. How: docs/golden-vectors.md.

python -m whetstone_trainer.algorithms.vectors --vectors proto/golden --check "node my-answers.js"
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# What an implementation answers, by file; all else of a vector is its question.
ANSWERS = {
    "advantages": ("advantages", "returns"),
    "agg_loss": ("expected",),
    "correction": ("weights", "kept", "metrics"),
    "kl": ("divergences", "gradient", "next", "rewards", "advantages"),
    "overlong": ("reward",),
    "policy_loss": ("losses", "gradient", "clipFraction", "kl"),
    "preference": ("loss", "gradient", "rewards"),
    "sft": ("expected",),
    "stepwise": ("advantages",),
    "value_loss": ("losses", "clipFraction"),
}
# The vectors are rounded to 6 digits.
TOLERANCE = 1e-6
TIMEOUT_S = 600.0


def vectors_of(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(file without ".json", vector), in order."""
    found = []
    for name in ANSWERS:
        found += [(name, vector) for vector in json.loads((folder / f"{name}.json").read_text())["vectors"]]
    return found


def question(file: str, vector: Mapping[str, Any]) -> dict[str, Any]:
    """The vector without what is to be answered, which `wanted` names."""
    wanted = [name for name in ANSWERS[file] if name in vector]
    given = {name: value for name, value in vector.items() if name not in wanted}
    return {"file": file, **given, "wanted": wanted}


def differences(file: str, vector: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """What of the answer is missing or further off than rounding; empty: all is right."""
    found = []
    for name in question(file, vector)["wanted"]:
        expected, got = vector[name], answer.get(name)
        if got is None:
            found.append(f"{name} is not answered")
        elif not _equal(expected, got):
            found.append(f"{name} is {json.dumps(got)}, expected {json.dumps(expected)}")
    return found


def _equal(expected: Any, got: Any) -> bool:
    """One number may stand for a list of the same, as an advantage for all tokens of its sequence."""
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(_equal(one, got.get(name)) for name, one in expected.items())
    if isinstance(expected, Sequence):
        return isinstance(got, Sequence) and len(got) == len(expected) and all(map(_equal, expected, got))
    if isinstance(got, Sequence):
        return all(_equal(expected, one) for one in got)
    return isinstance(got, int | float) and math.isclose(got, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def check(folder: Path, command: str) -> int:
    """Prints a line a vector that is not as expected, and how many are. Returns how many are not."""
    vectors = vectors_of(folder)
    asked = "".join(json.dumps(question(*one)) + "\n" for one in vectors)
    done = subprocess.run(shlex.split(command), input=asked, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or len(answers) != len(vectors):
        print(f"{command}: exit code {done.returncode}, {len(answers)} lines for {len(vectors)} vectors")
        return len(vectors)
    wrong = 0
    for (file, vector), answer in zip(vectors, answers, strict=True):
        for difference in (found := differences(file, vector, answer)):
            print(f"{file}: {vector['name']}: {difference}")
        wrong += bool(found)
    print(f"{len(vectors) - wrong} of {len(vectors)} vectors are as expected")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks another implementation against the golden vectors.")
    parser.add_argument("--check", required=True, metavar="COMMAND", help="reads questions, writes answers: JSON lines")
    parser.add_argument("--vectors", type=Path, default=Path("proto/golden"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    return 1 if check(given.vectors, given.check) else 0


if __name__ == "__main__":
    sys.exit(main())
