# SPDX-License-Identifier: Apache-2.0
"""Whether processes of the same user may look into this one, and open its descriptors by /proc."""

import ctypes

PR_SET_DUMPABLE = 4


def hide() -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def show() -> None:
    """A child is hidden as its parent is; where tests run, /proc/self has to work as it does everywhere."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
