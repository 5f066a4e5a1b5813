# SPDX-License-Identifier: Apache-2.0
"""One batch's worth of optimizer steps on pairs.

What a pair costs depends on all tokens of both its conversations, which may be in different micro-batches. So a
mini-batch is scored first, without a gradient. What the loss changes by with each token's log-probability is a number
then, and the gradient is that of the log-probabilities times those numbers: that of the loss, however it is cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from whetstone_trainer.algorithms.preference import judged_pairs
from whetstone_trainer.backends.local.forward import computed
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.policy import Policy
from whetstone_trainer.backends.local.update import AddGradient, Tally, Trainable, train_mini_batches
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import TrainSettings


def train_pairs(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    settings: TrainSettings,
    step: int,
    on_share: OnShare,
    budget: TokenBudget | None = None,
) -> dict[str, float]:
    """Trains on the rows of whole pairs, in place; returns the metrics, means over the optimizer steps.

    Raises TrainerError if the gradient or the weights are not finite.
    """
    options = settings.algorithm.preference
    assert options is not None, "the job trains pairs"
    budget = budget or TokenBudget(settings.batching.micro_batch_tokens)
    sums = defaultdict[str, float](float)

    def add_gradient_of(part: Sequence[Row]) -> AddGradient[Tally]:
        logprobs = computed(part, budget, policy.cut, lambda micro: policy.score(micro)[0], lambda _: None)
        judged = judged_pairs(part, logprobs, options)
        for name, value in judged.metrics.items():
            sums[name] += value
        slopes = {id(row): slope for row, slope in zip(part, judged.slopes, strict=True)}
        return lambda micro, _: accumulate_pairs(policy, micro, slopes)

    trainable = Trainable(
        f"step {step}",
        policy.module,
        optimizer,
        settings.optimizer,
        policy.cut,
        with_gradient=lambda part: part,
        add_gradient_of=add_gradient_of,
        unit=lambda row: row.pair,
    )
    tally, rate = train_mini_batches(trainable, rows, settings, step, on_share, budget, Tally())
    steps = max(1, tally.steps)
    means = {name: value / steps for name, value in sums.items()}
    return {**means, "grad_norm": tally.grad_norm / steps, "optimizer_steps": float(tally.steps), "lr": rate}


def accumulate_pairs(policy: Policy, micro: MicroBatch, slopes: dict[int, float]) -> None:
    """Adds one micro-batch's part of the mini-batch's gradient. `slopes`: by the row's identity."""
    logprobs_M, _ = policy.score(micro)
    slopes_N = micro.per_token([slopes[id(row)] for row in micro.rows])
    (logprobs_M[micro.token_of_N] * slopes_N).sum().backward()
