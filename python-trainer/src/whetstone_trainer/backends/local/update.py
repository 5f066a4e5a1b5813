# SPDX-License-Identifier: Apache-2.0
"""One batch's worth of optimizer steps: mini-batch after mini-batch, each gradient micro-batch by micro-batch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.backends.local.memory import Cut, TokenBudget, is_out_of_memory
from whetstone_trainer.backends.local.micro_batches import MicroBatch, mini_batches, unit_of
from whetstone_trainer.backends.local.optimizer import apply_settings
from whetstone_trainer.backends.local.policy import require_finite
from whetstone_trainer.backends.local.ranks import whole
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings


@dataclass
class Tally:
    """Sums over trained tokens and optimizer steps, for the metrics."""

    # Fields that each rank counts of its own passes.
    SUMMED: ClassVar[tuple[str, ...]] = ("tokens", "loss", "clipped")
    LARGEST: ClassVar[tuple[str, ...]] = ()

    steps: int = 0
    tokens: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    clipped: float = 0.0
    row_updates: int = 0


T = TypeVar("T", bound=Tally)
# Adds a micro-batch's part of a mini-batch's gradient, and its sums to the tally.
AddGradient = Callable[[MicroBatch, T], None]


@dataclass(frozen=True)
class Trainable(Generic[T]):
    """A model that a batch moves: how its rows are cut, what of them has a gradient, and how that is taken."""

    # How messages begin.
    name: str
    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    options: jobs.Optimizer
    cut: Cut
    with_gradient: Callable[[Sequence[Row]], Sequence[Row]]
    # For one mini-batch.
    add_gradient_of: Callable[[Sequence[Row]], AddGradient[T]]
    # Rows of one unit are in one mini-batch. Absent: what the job's batching says.
    unit: Callable[[Row], int] | None = None


def train_mini_batches(
    model: Trainable[T],
    rows: Sequence[Row],
    settings: TrainSettings,
    step: int,
    on_share: OnShare,
    budget: TokenBudget,
    tally: T,
) -> tuple[T, float]:
    """Trains in place; the sums, and the learning rate. A mini-batch without any gradient takes no optimizer step.

    Raises TrainerError if the gradient or the weights are not finite.
    """
    batching = settings.batching
    rate = apply_settings(model.optimizer, model.options, step, settings.steps)
    total = max(1, len(model.with_gradient(rows)) * batching.epochs)
    unit = model.unit or unit_of(batching)
    for epoch in range(batching.epochs):
        for part in mini_batches(rows, batching.mini_batches, settings.seed, step, epoch, unit):
            learned = model.with_gradient(part)
            if not learned:
                continue
            add_part = model.add_gradient_of(part)

            def add(micro: MicroBatch, to: T, add_part: AddGradient[T] = add_part) -> None:
                add_part(micro, copy.copy(to) if micro.is_filler else to)
                to.row_updates += len(micro.rows)
                on_share(to.row_updates / total)

            tally = add_gradient(model.cut, model.optimizer, learned, budget, tally, add)
            tally.grad_norm += update(model.optimizer, model.options.gradient_clip, model.name)
            tally.steps += 1
    # A quarter of what training holds, while versions are checked and weights are written.
    model.optimizer.zero_grad(set_to_none=True)
    where = f"{model.name}: after an update with learning rate {rate:g}"
    require_finite(model.module, where, "lower the learning rate")
    return budget.ranks.joined_tally(tally, tally.SUMMED, tally.LARGEST), rate


def add_gradient(
    cut: Cut,
    optimizer: torch.optim.Optimizer,
    part: Sequence[Row],
    budget: TokenBudget,
    tally: T,
    add: AddGradient[T],
) -> T:
    """The gradient of one mini-batch. A backward pass cut short leaves half a gradient, so all of it is done again."""
    optimizer.zero_grad(set_to_none=True)
    while True:
        attempt, failed = copy.copy(tally), None
        for micro in budget.passes(cut, part):
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
    total = whole(torch.nn.utils.get_total_norm(one.grad for one in parameters if one.grad is not None))
    torch.nn.utils.clip_grads_with_norm_(parameters, clip, total)
    norm = float(total)
    if not math.isfinite(norm):
        rate = optimizer.param_groups[0]["lr"]
        message = f"{where}: the gradient is {norm} at learning rate {rate:g}; lower the learning rate"
        raise TrainerError("TRAINER_FAILED", message, reason="NonFiniteWeights")
    optimizer.step()
    return norm
