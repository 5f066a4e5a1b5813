# SPDX-License-Identifier: Apache-2.0
"""What runs inside the sandboxes of SWE tasks: it plants bugs in a library, runs its tests, and grades a change.

It needs the standard library and pytest only: a copy of it lies in every prepared state, beside the library."""

from pathlib import Path

REPO = Path("/workspace/repo")
"""Where the library is, in a sandbox."""
SITE = Path("/workspace/site")
"""What its tests import."""
