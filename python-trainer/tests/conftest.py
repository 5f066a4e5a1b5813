# SPDX-License-Identifier: Apache-2.0
"""Builds what collected tests need before the first one runs: a build may take longer than a test may."""

from __future__ import annotations

import subprocess
import sys


def pytest_collection_finish() -> None:
    """The object store, once, on a machine that has none. Where that fails its tests say so."""
    objects = sys.modules.get("object_server")
    if objects is not None:
        subprocess.run([objects.SETUP], capture_output=True)
