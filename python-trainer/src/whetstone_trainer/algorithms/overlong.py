# SPDX-License-Identifier: Apache-2.0
"""DAPO's penalty of length. arXiv 2503.14476; verl `DAPORewardManager`; vectors: proto/golden/overlong.json."""

from __future__ import annotations

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.estimator import Member, lowered


def overlong_reward(tokens: int, options: jobs.Overlong) -> float:
    """What a sequence of so many trained tokens gets on top: 0, or less within the buffer and beyond it."""
    free = options.max_tokens - options.buffer_tokens
    return min(-(tokens - free) / options.buffer_tokens * options.penalty, 0.0)


def with_overlong(one: Member, options: jobs.PolicyGradient) -> Member:
    """The member whose last token pays for its length, if the job asks for it."""
    if not options.HasField("overlong"):
        return one
    penalties_K = np.zeros(one.tokens)
    penalties_K[-1:] = -overlong_reward(one.tokens, options.overlong)
    return lowered(one, penalties_K)
