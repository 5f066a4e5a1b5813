# SPDX-License-Identifier: Apache-2.0
"""The runner that others check their implementation with, against real commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from whetstone_trainer.algorithms.vectors import ANSWERS, differences, main, question, vectors_of

GOLDEN = Path(__file__).parents[3] / "proto" / "golden"
# Knows supervised fine-tuning, and nothing else.
SFT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {}
    if asked["file"] == "sft":
        pairs = list(zip(sum(asked["logprobs"], []), sum(asked["mask"], [])))
        answer["expected"] = SIGN * sum(l * m for l, m in pairs) / sum(m for _, m in pairs)
    print(json.dumps(answer))
"""


def run(tmp_path: Path, script: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (tmp_path / "answers.py").write_text(script)
    code = main(["--vectors", str(GOLDEN), "--check", f"{sys.executable} {tmp_path / 'answers.py'}"])
    return code, capsys.readouterr().out


def test_what_is_right_counts_and_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, SFT.replace("SIGN", "-1"), capsys)
    assert code == 1
    assert "sft:" not in said
    assert "kl: k1: divergences is not answered" in said
    assert f"1 of {len(vectors_of(GOLDEN))} vectors are as expected" in said


def test_what_is_wrong_is_named_with_both_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = run(tmp_path, SFT.replace("SIGN", "1"), capsys)
    assert "sft: mean over trained tokens: expected is -1.5, expected 1.5" in said


def test_a_command_that_fails_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "raise SystemExit(3)", capsys)[0] == 1


def test_every_vector_asks_something_and_its_own_answer_is_right() -> None:
    for file, vector in vectors_of(GOLDEN):
        asked = question(file, vector)
        assert asked["wanted"]
        assert not set(asked["wanted"]) & set(asked)
        assert differences(file, vector, json.loads(json.dumps(vector))) == []


def test_every_file_of_numbers_is_asked() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} - set(ANSWERS) == {"trainable"}
