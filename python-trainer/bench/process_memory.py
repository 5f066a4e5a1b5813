# SPDX-License-Identifier: Apache-2.0
"""What a process holds, in MiB."""

from __future__ import annotations

import resource
from pathlib import Path

import torch


def resident_mib() -> float:
    """Now; on Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def load_libraries() -> None:
    """What PyTorch loads only when it is first used: no part of what a training step holds."""
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 4)).sum().backward()
    optimizer.step()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
