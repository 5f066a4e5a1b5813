# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_env`: what it refuses, and what is left of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TROUBLED = str(HERE / "troubled.py")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), env=environment(**variables), capture_output=True, text=True, timeout=60)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "whetstone_env", *arguments]


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT.parent / 'proto/gen/python'}", **variables}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", r'case\.py has no environment: put @environment\("kind"\)'),
        ("x = 1 / 0", r"case\.py cannot be imported: ZeroDivisionError: division by zero \(case\.py:1\)"),
        ("import os\nos._exit(3)", r"its import ended the process"),
        (
            "from whetstone_env import environment\n@environment('a')\nclass A:\n    def reset(self, seed): ...",
            r"A: an environment needs the method step",
        ),
        (
            "from whetstone_env import environment\n@environment('a')\nclass A:\n"
            "    def reset(self, seed): ...\n    async def step(self, action): ...",
            r"A\.step is async",
        ),
    ],
)
def test_a_module_that_cannot_be_served_is_refused(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "case.py").write_text(source)
    ended = run(str(tmp_path / "case.py"), "--listen", "127.0.0.1:0")
    assert ended.returncode == 1
    assert re.search(words, ended.stderr), ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "nowhere.py: there is no such file"),
        (["no_such_module_here"], "no_such_module_here cannot be imported: ModuleNotFoundError"),
        ([f"{TROUBLED}:other"], 'has no environment "other"; it has troubled'),
        ([TROUBLED, "--slots", "0"], "--slots: must be a whole number from 1 to 10000, not '0'"),
        ([TROUBLED, "--listen", "here"], "--listen: must be a whole number from 0 to 65535, not 'here'"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(arguments: list[str], words: str) -> None:
    ended = run("--listen", "127.0.0.1:0", *arguments)
    assert ended.returncode != 0
    assert words in ended.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_nothing_is_left_of_it(number: signal.Signals, status: int) -> None:
    with subprocess.Popen(
        command(TROUBLED, "--listen", "127.0.0.1:0"), env=environment(), stderr=subprocess.PIPE
    ) as one:
        assert one.stderr is not None
        ready = json.loads(one.stderr.readline())
        assert (ready["event"], ready["kinds"]) == ("ready", ["troubled"])
        tree = descendants(one.pid)
        assert len(tree) == 1, "the fork server"
        one.send_signal(number)
        assert one.wait(60) == status
        end = time.monotonic() + 60
        while any(Path(f"/proc/{pid}/cmdline").exists() and is_ours(pid) for pid in tree):
            assert time.monotonic() < end, "the fork server is left"
            time.sleep(0.02)


def is_ours(pid: int) -> bool:
    try:
        return b"whetstone_env" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    text = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in text.splitlines()]
    return [child for child, parent in parents if parent == pid]
