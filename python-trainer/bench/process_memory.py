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
    """The most that was resident since the process began, or since the last `forget_peak`; on Linux."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


def forget_peak() -> None:
    """What `peak_mib` tells begins anew with what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")
