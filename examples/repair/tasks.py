# SPDX-License-Identifier: Apache-2.0
"""Small functions with one wrong operator, as tasks of the environment `code`; and for SFT right functions, and edits drawn at
random. `python tasks.py FOLDER [SEED]` writes demonstrations.jsonl, train.jsonl and heldout.jsonl, which share no question."""

import json
import pathlib
import random
import re
import sys

HELD_OUT, TRAIN, EDITS, WRITINGS = 128, 1024, 3072, 2048
COMPARE, ARITHMETIC = ("<", ">", "<=", ">=", "==", "!="), ("+", "-", "*")
OPERATOR = re.compile(r" (<=|>=|==|!=|<|>|\+|-|\*) ")
FUNCTIONS = [
    "def largest(a, b):\n if a > b:\n  return a\n return b",
    "def least(a, b):\n if a < b:\n  return a\n return b",
    "def distance(a, b):\n if a > b:\n  return a - b\n return b - a",
    "def outside(a, b):\n if a < 0:\n  return 1\n if a > b:\n  return 1\n return 0",
    "def at_least(a, b):\n if a < b:\n  return b\n return a",
    "def at_most(a, b):\n if a > b:\n  return b\n return a",
    "def total(s):\n t = 0\n for x in s:\n  t = t + x\n return t",
    "def product(s):\n t = 1\n for x in s:\n  t = t * x\n return t",
    "def minus(a, s):\n for x in s:\n  a = a - x\n return a",
    "def power(a, b):\n t = 1\n for x in range(b):\n  t = t * a\n return t",
    "def maximum(s):\n m = s[0]\n for x in s:\n  if x > m:\n   m = x\n return m",
    "def minimum(s):\n m = s[0]\n for x in s:\n  if x < m:\n   m = x\n return m",
    "def above(s, a):\n n = 0\n for x in s:\n  if x > a:\n   n = n + 1\n return n",
]


def renamed(text: str, rng: random.Random) -> str:
    """The same function with other letters for its variables."""
    letters = dict(
        zip("abstmnx", rng.sample("abcdefghijklmnopqrstuvwxyz", 7), strict=True)
    )
    return re.sub(r"\b[abstmnx]\b", lambda found: letters[found[0]], text)


def edits_of(text: str) -> list[tuple[int, str, str]]:
    """Each operator, and each other one of its kind: line (from 1), the new operator, and the text with it."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines):
        for match in OPERATOR.finditer(line):
            kind = COMPARE if match[1] in COMPARE else ARITHMETIC
            for new in (each for each in kind if each != match[1]):
                changed = line[: match.start()] + f" {new} " + line[match.end() :]
                found.append(
                    (
                        number + 1,
                        new,
                        "\n".join([*lines[:number], changed, *lines[number + 1 :]]),
                    )
                )
    return found


def results(text: str, inputs: list[list]) -> list:
    """What the function gives; None where it fails."""
    names: dict = {}
    exec(text, names)  # noqa: S102 (our own text)
    function = names[text[4 : text.index("(")]]
    given = []
    for each in inputs:
        try:
            given.append(function(*json.loads(json.dumps(each))))
        except TypeError:  # A list and an operator that lists do not have.
            given.append(None)
    return given


def inputs_of(text: str, rng: random.Random, count: int = 8) -> list[list]:
    """Numbers, and a list for the name that a loop goes over."""
    lists = re.findall(r"in (\w):", text)
    names = text[text.index("(") + 1 : text.index(")")].split(", ")

    def draw(name: str) -> int | list[int]:
        return (
            [rng.randint(1, 6) for _ in range(rng.randint(3, 5))]
            if name in lists
            else rng.randint(0, 6)
        )

    return [[draw(name) for name in names] for _ in range(count)]


def task(seed: int) -> dict:
    rng = random.Random(seed)
    while True:
        right = renamed(rng.choice(FUNCTIONS), rng)
        _, _, broken = rng.choice(edits_of(right))
        inputs = inputs_of(right, rng)
        expected = results(right, inputs)
        if expected != results(broken, inputs):
            break
    cases = [
        {"arguments": given, "result": result}
        for given, result in zip(inputs, expected, strict=True)
    ]
    question = "\n".join(
        f"{number}{line}" for number, line in enumerate(broken.split("\n"), 1)
    )
    tests = {"kind": "function", "name": right[4 : right.index("(")], "cases": cases}
    return {"id": f"repair-{seed}", "payload": {"question": question, "tests": tests}}


def writing(seed: int) -> dict:
    """A right function, from its first line on: what a model that has seen programs knows."""
    rng = random.Random(f"writing {seed}")
    head, body = renamed(rng.choice(FUNCTIONS), rng).split("\n", 1)
    turns = [{"role": "user", "content": head}, {"role": "assistant", "content": body}]
    return {"id": f"writing-{seed}", "demonstration": turns}


def edit(seed: int) -> dict:
    """A task, and an edit of it by chance: the form of an answer, and nothing of which operator is wrong."""
    question = task(seed)["payload"]["question"]
    line, operator, _ = random.Random(f"edit {seed}").choice(
        edits_of(unnumbered(question))
    )
    turns = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": f"{line}{operator}"},
    ]
    return {"id": f"edit-{seed}", "demonstration": turns}


def unnumbered(question: str) -> str:
    return "\n".join(line[1:] for line in question.split("\n"))


def main(folder: pathlib.Path, seed: int) -> None:
    seeds, seen = iter(range(seed * 10**6, (seed + 1) * 10**6)), set()

    def fresh(make, count: int) -> list[dict]:
        found: list[dict] = []
        while len(found) < count:
            each = next(seeds)
            question = task(each)["payload"]["question"]
            if question not in seen:
                seen.add(question)
                found.append(make(each))
        return found

    folder.mkdir(parents=True, exist_ok=True)
    heldout, train, edits = (
        fresh(task, HELD_OUT),
        fresh(task, TRAIN),
        fresh(edit, EDITS),
    )
    demonstrations = edits + [writing(each) for each in range(WRITINGS)]
    random.Random(seed).shuffle(demonstrations)
    for name, rows in (
        ("heldout", heldout),
        ("train", train),
        ("demonstrations", demonstrations),
    ):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(each) + "\n" for each in rows)
        )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
