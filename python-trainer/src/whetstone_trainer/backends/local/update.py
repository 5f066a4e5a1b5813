# SPDX-License-Identifier: Apache-2.0
"""One optimizer step: the gradient of a mini-batch, micro-batch by micro-batch, and what is done with it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from whetstone_trainer.backends.local.memory import TokenBudget, is_out_of_memory
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError

T = TypeVar("T")


def add_gradient(
    cut: Callable[[Sequence[Row], int], Iterator[MicroBatch]],
    optimizer: torch.optim.Optimizer,
    part: Sequence[Row],
    budget: TokenBudget,
    tally: T,
    add: Callable[[MicroBatch, T], None],
) -> T:
    """The gradient of one mini-batch. A backward pass cut short leaves half a gradient, so all of it is done again."""
    optimizer.zero_grad(set_to_none=True)
    while True:
        attempt, failed = copy.copy(tally), None
        for micro in cut(part, budget.tokens):
            try:
                add(micro, attempt)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                failed = micro
                break
        if failed is None:
            return attempt
        optimizer.zero_grad(set_to_none=True)
        budget.halve(failed)


def update(optimizer: torch.optim.Optimizer, clip: float, where: str) -> float:
    """Moves the weights by the gradient, its norm bounded by `clip`; returns the norm before that.

    Raises TrainerError, which begins with `where`, for a gradient that is not finite.
    """
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, clip))
    if not math.isfinite(norm):
        rate = optimizer.param_groups[0]["lr"]
        message = f"{where}: the gradient is {norm} at learning rate {rate:g}; lower the learning rate"
        raise TrainerError("TRAINER_FAILED", message, reason="NonFiniteWeights")
    optimizer.step()
    return norm
