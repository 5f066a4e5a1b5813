# SPDX-License-Identifier: Apache-2.0
"""Forward passes over rows without a gradient: a number of each trained token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from whetstone_trainer.backends.local.memory import Cut, TokenBudget, each_that_fits
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row


def computed(
    rows: Sequence[Row],
    budget: TokenBudget,
    cut: Cut,
    compute: Callable[[MicroBatch], Tensor],
    on_share: OnShare,
) -> list[np.ndarray]:
    """Of each row's trained tokens [K]. `compute`: of a micro-batch's tokens [M]."""
    found = dict[int, np.ndarray]()
    index_of = {id(row): index for index, row in enumerate(rows)}
    with torch.no_grad():
        for micro, values_M in each_that_fits(rows, budget, cut, compute):
            for row, part in zip(micro.rows, micro.split(values_M[micro.token_of_N]), strict=True):
                found[index_of[id(row)]] = part
            on_share(min(1.0, len(found) / len(rows)))
    found = budget.ranks.joined(found)
    return [found[index] for index in range(len(rows))]
