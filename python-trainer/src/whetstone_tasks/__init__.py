# SPDX-License-Identifier: Apache-2.0
"""What runs inside the sandboxes of SWE tasks: it plants bugs in a library, runs its tests, and grades a change.

It needs the standard library and pytest only: a copy of it lies in every prepared state, beside the library."""

import os
from pathlib import Path

WORKSPACE = Path(os.environ.get("WHETSTONE_WORKSPACE", "/workspace"))
REPO = WORKSPACE / "repo"
"""Where the library is, in a sandbox."""
SITE = WORKSPACE / "site"
"""What its tests import."""
