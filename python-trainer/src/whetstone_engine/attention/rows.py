# SPDX-License-Identifier: Apache-2.0
"""Which tokens of which sequences a step is about, as arrays: one sequence after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]


def spread(values: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Each value once for every number from its `starts` to before its `ends`, and those numbers."""
    counts = ends - starts
    last = np.cumsum(counts)
    return np.repeat(values, counts), np.arange(last[-1]) - np.repeat(last - counts - starts, counts)


def on_device(array: Ints, device: torch.device) -> Tensor:
    """The array as a tensor; on a CPU they share memory."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def together(arrays: Sequence[Ints], device: torch.device) -> list[Tensor]:
    """All of them on the device, each with its shape, by one copy."""
    joined = on_device(np.concatenate([array.ravel() for array in arrays]), device)
    return [part.view(array.shape) for part, array in zip(joined.split([a.size for a in arrays]), arrays, strict=True)]
