# SPDX-License-Identifier: Apache-2.0
"""One batch's worth of optimizer steps of the critic: mini-batches, epochs and aggregation are the policy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from whetstone_trainer.algorithms.value_loss import value_losses
from whetstone_trainer.algorithms.values import valued
from whetstone_trainer.backends.local.critic import Critic
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import MicroBatch, mini_batches, row_weights, scale_factor
from whetstone_trainer.backends.local.optimizer import apply_settings
from whetstone_trainer.backends.local.policy import require_finite
from whetstone_trainer.backends.local.update import add_gradient, update
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import TrainSettings


@dataclass
class ValueTally:
    """Sums over trained tokens and optimizer steps, for the metrics."""

    steps: int = 0
    tokens: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    clipped: float = 0.0
    row_updates: int = 0


def train_critic(
    critic: Critic, rows: Sequence[Row], settings: TrainSettings, step: int, on_share: OnShare, budget: TokenBudget
) -> dict[str, float]:
    """Trains on those of `rows` that have returns, in place; returns the metrics.

    Raises TrainerError if the gradient or the weights are not finite.
    """
    algorithm, batching = settings.algorithm, settings.batching
    own = algorithm.options.critic
    rate = apply_settings(critic.optimizer, own.optimizer, step, settings.steps)
    scale, rows = scale_factor(rows, algorithm), valued(rows)
    tally, total = ValueTally(), max(1, len(rows) * batching.epochs)
    where = f"step {step}: the critic"
    for epoch in range(batching.epochs):
        for part in mini_batches(rows, batching.mini_batches, settings.seed, step, epoch):
            weights = row_weights(part, algorithm, scale)

            def add(micro: MicroBatch, to: ValueTally, weights: dict[int, float] = weights) -> None:
                accumulate_value_loss(critic, micro, weights, own.value_clip, to)
                to.row_updates += len(micro.rows)
                on_share(to.row_updates / total)

            tally = add_gradient(critic.cut, critic.optimizer, part, budget, tally, add)
            tally.grad_norm += update(critic.optimizer, own.optimizer.gradient_clip, where)
            tally.steps += 1
    require_finite(critic.module, f"{where}, after an update with learning rate {rate:g}", "lower the learning rate")
    steps, tokens = max(1, tally.steps), max(1, tally.tokens)
    return {
        "value_loss": tally.loss / steps,
        "vf_clipfrac": tally.clipped / tokens,
        "critic_grad_norm": tally.grad_norm / steps,
        "critic_lr": rate,
    }


def accumulate_value_loss(
    critic: Critic, micro: MicroBatch, weights: dict[int, float], clip: float, tally: ValueTally
) -> None:
    """Adds one micro-batch's part of the mini-batch's gradient."""
    values_N = critic.values(micro)[micro.token_of_N]
    weights_N = micro.per_token([weights[id(row)] for row in micro.rows])
    returns_N = micro.gather([row.returns for row in micro.rows])
    losses_N, clipped_N = value_losses(values_N, returns_N, micro.gather([row.values for row in micro.rows]), clip)
    loss = (losses_N * weights_N).sum()
    loss.backward()
    with torch.no_grad():
        tally.loss += float(loss)
        tally.clipped += float(clipped_N.sum())
        tally.tokens += len(values_N)
