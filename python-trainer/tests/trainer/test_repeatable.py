# SPDX-License-Identifier: Apache-2.0
"""On a GPU operators are asked for their repeatable form, and FlashAttention for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from compute_device import DEVICE

from whetstone_trainer.backends.local.repeatable import compute_repeatably, repeatable_kernels


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    yield
    compute_repeatably(DEVICE)
    if DEVICE.type == "cpu":
        torch.use_deterministic_algorithms(False)


def modes() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def test_kernels_must_be_repeatable_where_other_operators_only_warn() -> None:
    compute_repeatably(torch.device("cuda"))
    assert modes() == (True, True)
    with repeatable_kernels():
        assert modes() == (True, False)
    assert modes() == (True, True)


@pytest.mark.skipif(DEVICE.type != "cpu", reason="the process computes on a GPU")
def test_a_cpu_stays_as_it_is() -> None:
    compute_repeatably(torch.device("cpu"))
    with repeatable_kernels():
        assert modes() == (False, False)
