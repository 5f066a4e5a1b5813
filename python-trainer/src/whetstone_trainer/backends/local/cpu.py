# SPDX-License-Identifier: Apache-2.0
"""What the CPU of this machine can do."""

from __future__ import annotations

from pathlib import Path

# x86's names, and ARM's.
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def computes_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether it multiplies bfloat16 itself: without that, PyTorch is about 8 times slower than in float32.

    True where nothing says what it can do.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return True
    features = [line.partition(":")[2].split() for line in lines if line.lower().startswith(("flags", "features"))]
    return not features or not BFLOAT16.isdisjoint(features[0])
