# SPDX-License-Identifier: Apache-2.0
"""One batch's worth of optimizer steps of the critic: mini-batches, epochs and aggregation are the policy's."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from whetstone_trainer.algorithms.value_loss import value_losses
from whetstone_trainer.algorithms.values import valued
from whetstone_trainer.backends.local.critic import Critic
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import MicroBatch, row_weights, scale_factor
from whetstone_trainer.backends.local.update import AddGradient, Tally, Trainable, train_mini_batches
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import TrainSettings


def train_critic(
    critic: Critic, rows: Sequence[Row], settings: TrainSettings, step: int, on_share: OnShare, budget: TokenBudget
) -> dict[str, float]:
    """Trains on those of `rows` that have returns, in place; returns the metrics.

    Raises TrainerError if the gradient or the weights are not finite.
    """
    algorithm, own = settings.algorithm, settings.algorithm.options.critic
    scale = scale_factor(rows, algorithm)

    def add_gradient_of(part: Sequence[Row]) -> AddGradient[Tally]:
        weights = row_weights(part, algorithm, scale)
        return lambda micro, to: accumulate_value_loss(critic, micro, weights, own.value_clip, to)

    trainable = Trainable(
        f"step {step}: the critic",
        critic.module,
        critic.optimizer,
        own.optimizer,
        critic.cut,
        with_gradient=lambda part: part,
        add_gradient_of=add_gradient_of,
    )
    tally, rate = train_mini_batches(trainable, valued(rows), settings, step, on_share, budget, Tally())
    steps, tokens = max(1, tally.steps), max(1, tally.tokens)
    return {
        "value_loss": tally.loss / steps,
        "vf_clipfrac": tally.clipped / tokens,
        "critic_grad_norm": tally.grad_norm / steps,
        "critic_lr": rate,
    }


def accumulate_value_loss(
    critic: Critic, micro: MicroBatch, weights: dict[int, float], clip: float, tally: Tally
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
