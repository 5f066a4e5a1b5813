# SPDX-License-Identifier: Apache-2.0
"""How the losses of tokens become one number.

I10: a loss is a weighted sum over trained tokens, and the weights come from denominators of the whole mini-batch.
So its gradient does not depend on how the mini-batch is split, and a masked token, having no weight, has none.
Source: verl core_algos (`agg_loss`). Vectors: proto/golden/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.kl import in_loss
from whetstone_trainer.algorithms.token_loss import TokenLoss
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import AlgorithmSettings


def counted_rows(rows: Sequence[Row], algorithm: AlgorithmSettings) -> Sequence[Row]:
    """What the denominators of a batch count."""
    if algorithm.options.loss_denominator == jobs.LOSS_DENOMINATOR_SIGNAL:
        return with_signal(rows)
    return rows


def with_gradient(rows: Sequence[Row], algorithm: AlgorithmSettings) -> Sequence[Row]:
    """Those of the counted rows that must be computed: the others weigh in the denominators only."""
    if algorithm.options.entropy_coefficient > 0 or in_loss(algorithm.options):
        return rows
    return _of_trajectories(rows, lambda row: bool(row.advantages.any()) or token_loss_of(row, algorithm).always_pulls)


def with_signal(rows: Sequence[Row]) -> list[Row]:
    """Rows of trajectories with an advantage other than 0."""
    return _of_trajectories(rows, lambda row: bool(row.advantages.any()))


def token_loss_of(row: Row, algorithm: AlgorithmSettings) -> TokenLoss:
    """Its role's, or the job's."""
    return algorithm.loss(row.token_loss or algorithm.token_loss)


def _of_trajectories(rows: Sequence[Row], is_meant: Callable[[Row], bool]) -> list[Row]:
    """All rows of trajectories of which one is meant."""
    trajectories = {row.trajectory for row in rows if is_meant(row)}
    return [row for row in rows if row.trajectory in trajectories]


def token_weights(
    lengths_R: Tensor,
    mode: str,
    total_tokens: float,
    total_rows: float,
    scale_factor: float,
    workers: int = 1,
) -> Tensor:
    """Weight of each token of row r, [R] float: the aggregated loss is Σ_r weight_r · Σ_t loss_rt.

    `lengths_R`: trained tokens of each row. `total_*`: of the whole mini-batch, over all workers; rows without a
    trained token are not counted. `scale_factor`: divisor of seq-mean-token-sum-norm. `workers`: gradients will be
    averaged over that many.
    """
    lengths_R = lengths_R.to(torch.float64)
    if mode == "token-mean":
        weights_R = torch.full_like(lengths_R, 1.0 / total_tokens)
    elif mode == "token-sum":
        weights_R = torch.ones_like(lengths_R)
    elif mode == "seq-mean-token-sum":
        weights_R = torch.full_like(lengths_R, 1.0 / total_rows)
    elif mode == "seq-mean-token-sum-norm":
        weights_R = torch.full_like(lengths_R, 1.0 / (total_rows * scale_factor))
    elif mode == "seq-mean-token-mean":
        weights_R = 1.0 / (total_rows * (lengths_R + 1e-8))
    else:
        raise ValueError(f"unknown loss aggregation {mode!r}")
    return weights_R * workers
