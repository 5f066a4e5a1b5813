# SPDX-License-Identifier: Apache-2.0
"""A trainer that is asked for bfloat16 where the CPU has none says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from whetstone_trainer import __main__
from whetstone_trainer.backends.local.cpu import computes_bfloat16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True),
        ("flags\t\t: fpu amx_bf16\n", True),
        ("Features\t: fp asimd bf16\n", True),
        ("flags\t\t: fpu avx512f avx512_bf16x\nflags\t\t: fpu\n", False),
        ("Features\t: fp asimd\n", False),
        ("processor\t: 0\n", True),
    ],
)
def test_what_the_cpu_can_do_is_read_from_its_features(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert computes_bfloat16(tmp_path / "cpuinfo") is expected


def test_a_machine_that_does_not_say_is_not_warned_of(tmp_path: Path) -> None:
    assert computes_bfloat16(tmp_path / "none")


@pytest.mark.parametrize(
    ("device", "dtype", "computes", "warns"),
    [
        ("cpu", torch.bfloat16, False, True),
        ("cpu", torch.bfloat16, True, False),
        ("cpu", torch.float32, False, False),
        ("cuda", torch.bfloat16, False, False),
    ],
)
def test_a_trainer_that_will_be_slow_says_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    device: str,
    dtype: torch.dtype,
    computes: bool,
    warns: bool,
) -> None:
    monkeypatch.setattr(__main__, "computes_bfloat16", lambda: computes)
    __main__.warn_of_slow_bfloat16(torch.device(device), dtype)
    assert [record.message for record in caplog.records] == (["bfloat16_is_slow"] if warns else [])
