# SPDX-License-Identifier: Apache-2.0
"""The processes of Ray's actors."""

from __future__ import annotations

import psutil


def ranks_of(process: psutil.Process) -> list[psutil.Process]:
    """Below `process`."""
    return [one for one in process.children(recursive=True) if "ray::_Rank" in " ".join(one.cmdline())]
