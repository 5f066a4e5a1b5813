# SPDX-License-Identifier: Apache-2.0
"""Passes of few sizes, for a CPU.

oneDNN makes a kernel for every size of a product, which takes about a millisecond, and of the last 1,024 of them it and
PyTorch keep 600 KiB each. Passes of mixed lengths have a size of their own each, so a pass is rounded up: by 4 % on
average and an eighth at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rounding:
    """What a pass computes besides its own tokens and its M trained ones, and nobody reads."""

    tokens: int
    # Of each further trained token: index of the token before it.
    predictors: np.ndarray


NONE = Rounding(0, np.zeros(0, dtype=np.int64))


def rounding(tokens: int, predictors_M: np.ndarray, most: int) -> Rounding:
    """Of a pass of so many tokens: its tokens, its trained ones and the tokens before these come to rounded counts.

    With it the pass has at most `most` tokens, or as many as it had. Tokens before trained ones may be equal, and are
    computed once; those of the rounding are tokens that no trained one stands behind.
    """
    size = min(rounded(tokens), max(most, tokens))
    asked = np.unique(predictors_M)
    more_asked = min(rounded(len(asked)), size) - len(asked)
    others = np.setdiff1d(np.arange(size), asked, assume_unique=True)[:more_asked]
    trained = len(predictors_M) + more_asked
    again = np.full(rounded(trained) - trained, predictors_M[0])
    return Rounding(size - tokens, np.concatenate([others, again]))


def rounded(count: int) -> int:
    """The next of the counts that products may have: 8 between a number and twice that."""
    step = 1 << max(0, count.bit_length() - 4)
    return -(-count // step) * step
