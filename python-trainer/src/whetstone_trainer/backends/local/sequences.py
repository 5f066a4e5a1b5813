# SPDX-License-Identifier: Apache-2.0
"""Log-ratios of whole sequences, for losses that have one ratio a sequence.

A sequence is a trajectory. Its ratio is only a number: no gradient flows through it. So the rows of a trajectory that
has several are scored once before the gradient is taken, and may be in different micro-batches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from whetstone_trainer.algorithms.aggregation import token_loss_of
from whetstone_trainer.backends.local.memory import TokenBudget, each_that_fits
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.policy import Policy
from whetstone_trainer.backends.local.role_losses import sequence_terms
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import AlgorithmSettings

# Mean log-ratio of a trajectory with several rows, by its index.
SeveralRows = dict[int, float]


def of_several_rows(
    policy: Policy, rows: Sequence[Row], budget: TokenBudget, algorithm: AlgorithmSettings
) -> SeveralRows:
    """Of the trajectories that have more than one of `rows` and a loss that reads it, under the present policy."""
    counts = Counter(row.trajectory for row in rows if token_loss_of(row, algorithm).of_sequences)
    several = [row for row in rows if counts[row.trajectory] > 1]
    index_of = {id(row): index for index, row in enumerate(several)}
    found = dict[int, float]()
    with torch.no_grad():
        for micro, (logprobs_M, _) in each_that_fits(several, budget, policy.cut, policy.score):
            log_ratios_N = logprobs_M[micro.token_of_N] - micro.gather([row.old_logprobs for row in micro.rows])
            advantages_N = micro.gather([row.advantages for row in micro.rows])
            terms_N = sequence_terms(micro, log_ratios_N, advantages_N, algorithm)
            for row, total in zip(micro.rows, _sums(micro, terms_N).tolist(), strict=True):
                found[index_of[id(row)]] = total
    sums, tokens = defaultdict[int, float](float), Counter[int]()
    for index, total in sorted(budget.ranks.joined(found).items()):
        sums[several[index].trajectory] += total
        tokens[several[index].trajectory] += len(several[index].positions)
    return {trajectory: total / tokens[trajectory] for trajectory, total in sums.items()}


def mean_log_ratios(micro: MicroBatch, terms_N: Tensor, several: SeveralRows) -> Tensor:
    """Mean [N] of the terms of each token's sequence. `terms_N`: of `TokenLoss.sequence_term`, without gradient."""
    lengths = terms_N.new_tensor([len(row.positions) for row in micro.rows])
    means_R = _sums(micro, terms_N) / lengths
    if several:
        known = [several.get(row.trajectory, np.nan) for row in micro.rows]
        known_R = means_R.new_tensor(known)
        means_R = torch.where(known_R.isnan(), means_R, known_R)
    return means_R[torch.from_numpy(micro.row_of_N).to(means_R.device)]


def _sums(micro: MicroBatch, values_N: Tensor) -> Tensor:
    """Of each row [R]."""
    row_of_N = torch.from_numpy(micro.row_of_N).to(values_N.device)
    return values_N.new_zeros(len(micro.rows)).index_add(0, row_of_N, values_N)
