# SPDX-License-Identifier: Apache-2.0
"""Which tokens were sampled too far off to be trained. verl `compute_rollout_rejection_mask` (MIS, geometric masks).

Log-ratios as in `importance`. Vectors: proto/golden/correction.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.importance import LOG_RATIO_BOUND

# Of a token, by the end of the statistic's name.
_OF_TOKEN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "K1": lambda log_ratios: -log_ratios,
    "K2": lambda log_ratios: log_ratios**2 / 2,
    "K3": lambda log_ratios: np.exp(log_ratios) - 1 - log_ratios,
}
# Of a sequence's tokens, by its beginning. A token stands for itself.
_OF_SEQUENCE: dict[str, Callable[[np.ndarray], np.ndarray | np.floating]] = {
    "TOKEN": lambda values: values,
    "SEQ_SUM": np.sum,
    "SEQ_MEAN": np.mean,
    "SEQ_MAX": np.max,
}


def kept_tokens(log_ratios: Sequence[np.ndarray], rejections: Sequence[jobs.Rejection]) -> list[np.ndarray]:
    """Of each sequence: which of its tokens [L] pass every bound."""
    kept = [np.ones(len(one), dtype=bool) for one in log_ratios]
    for rejection in rejections:
        for passed, one in zip(kept, log_ratios, strict=True):
            passed &= _within(one, rejection)
    return kept


def _within(log_ratios: np.ndarray, rejection: jobs.Rejection) -> np.ndarray | np.bool_:
    name = jobs.RejectionStatistic.Name(rejection.statistic).removeprefix("REJECTION_STATISTIC_")
    of, _, kind = name.rpartition("_")
    values = _OF_SEQUENCE[of](_OF_TOKEN[kind](np.clip(log_ratios, -LOG_RATIO_BOUND, LOG_RATIO_BOUND)))
    if kind != "K1":
        return values <= rejection.high
    low = rejection.low if rejection.HasField("low") else 1 / rejection.high
    return (values >= np.log(low)) & (values <= np.log(rejection.high))
