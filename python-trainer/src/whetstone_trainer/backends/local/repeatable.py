# SPDX-License-Identifier: Apache-2.0
"""The same numbers from the same batch, on a GPU too: a step done again has bit for bit the weights it had (I7)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
import torch.utils.deterministic


def compute_repeatably(device: torch.device) -> None:
    """From now on in this process. On a GPU sums otherwise depend on the order in which its threads come.

    Call it before anything is computed. An operator that has no such form warns, once: a job's own module may use one.
    Source: PyTorch, "Reproducibility"; cuBLAS, "Results reproducibility".
    """
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling new tensors with NaN finds readers of what nobody wrote, and costs a pass over memory each.
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]


@contextlib.contextmanager
def repeatable_kernels() -> Iterator[None]:
    """For kernels that have such a form and take it only where others would be an error, as FlashAttention's."""
    was_on, only_warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(was_on)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=only_warns)
