# SPDX-License-Identifier: Apache-2.0
"""One batch's worth of optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from whetstone_trainer.algorithms.aggregation import counted_rows, with_gradient
from whetstone_trainer.algorithms.kl import DIVERGENCE_OF, in_loss
from whetstone_trainer.algorithms.token_loss import TokenLossInput
from whetstone_trainer.backends.local.first_pass import FirstPass
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import MicroBatch, row_weights, scale_factor
from whetstone_trainer.backends.local.policy import Policy
from whetstone_trainer.backends.local.role_losses import sequence_terms, token_losses
from whetstone_trainer.backends.local.sequences import SeveralRows, mean_log_ratios, of_several_rows
from whetstone_trainer.backends.local.update import AddGradient, Tally, Trainable, train_mini_batches
from whetstone_trainer.backends.protocol import OnShare
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.settings import TrainSettings


@dataclass
class PolicyTally(Tally):
    """And what only a policy has."""

    SUMMED: ClassVar[tuple[str, ...]] = (*Tally.SUMMED, "policy_loss", "entropy", "ratio", "kl", "kl_tokens")
    LARGEST: ClassVar[tuple[str, ...]] = ("ratio_max",)

    policy_loss: float = 0.0
    entropy: float = 0.0
    ratio: float = 0.0
    ratio_max: float = 0.0
    # Behaviour minus current log-probability, before the first optimizer step of the batch.
    kl: float = 0.0
    kl_tokens: int = 0


def train_rows(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[Row],
    settings: TrainSettings,
    step: int,
    on_share: OnShare,
    budget: TokenBudget | None = None,
    first_pass: FirstPass | None = None,
) -> dict[str, float]:
    """Trains on `rows` in place; returns the metrics. A mini-batch without any gradient takes no optimizer step.

    `first_pass` is told what the pass before the first optimizer step finds.

    Raises TrainerError if the gradient or the weights are not finite: no engine would serve what is published.
    """
    algorithm, fitting = settings.algorithm, budget or TokenBudget(settings.batching.micro_batch_tokens)
    scale, first = scale_factor(rows, algorithm), first_pass or FirstPass()

    def add_gradient_of(part: Sequence[Row]) -> AddGradient[PolicyTally]:
        weights = row_weights(part, algorithm, scale)
        several = of_several_rows(policy, with_gradient(part, algorithm), fitting, algorithm)
        return lambda micro, to: accumulate(policy, micro, weights, several, settings, to, first)

    trainable = Trainable(
        f"step {step}",
        policy.module,
        optimizer,
        settings.optimizer,
        policy.cut,
        with_gradient=lambda part: with_gradient(part, algorithm),
        add_gradient_of=add_gradient_of,
    )
    given = (settings, step, on_share, fitting, PolicyTally())
    return _metrics(*train_mini_batches(trainable, counted_rows(rows, algorithm), *given))


def accumulate(
    policy: Policy,
    micro: MicroBatch,
    weights: dict[int, float],
    several: SeveralRows,
    settings: TrainSettings,
    tally: PolicyTally,
    first_pass: FirstPass,
) -> None:
    """Adds one micro-batch's part of the mini-batch's gradient."""
    algorithm = settings.algorithm
    coefficient = algorithm.options.entropy_coefficient
    logprobs_M, entropies_M = policy.score(micro, entropy_gradient=coefficient > 0)
    logprobs_N, entropies_N = logprobs_M[micro.token_of_N], entropies_M[micro.token_of_N]
    weights_N = micro.per_token([weights[id(row)] for row in micro.rows])
    rows = first_pass.rows(micro, logprobs_N, is_first=tally.steps == 0)
    old_N = micro.gather([row.old_logprobs for row in rows])
    advantages_N = micro.gather([row.advantages for row in rows])
    terms_N = sequence_terms(micro, logprobs_N.detach() - old_N, advantages_N, algorithm)
    given = TokenLossInput(logprobs_N, old_N, advantages_N, mean_log_ratios(micro, terms_N, several))
    out = token_losses(micro, given, algorithm)
    importance_N = micro.gather([row.importance for row in rows])
    policy_loss = (out.losses_N * importance_N * weights_N).sum()
    entropy = (entropies_N * weights_N).sum()
    loss = policy_loss - coefficient * entropy if coefficient > 0 else policy_loss
    if in_loss(algorithm.options):
        kl, reference_N = algorithm.options.kl, micro.gather([row.reference for row in rows])
        loss = loss + kl.coefficient * (DIVERGENCE_OF[kl.estimator](logprobs_N, reference_N) * weights_N).sum()
    loss.backward()
    with torch.no_grad():
        sums = (loss, policy_loss, entropies_N.sum(), out.clipped_N.sum(), out.ratio_N.sum(), out.ratio_N.max())
        _add(tally, [float(value) for value in sums], len(weights_N))
        if tally.steps == 0:
            behaviour_N = micro.gather([row.logprobs for row in rows])
            tally.kl += float((behaviour_N - logprobs_N).sum())
            tally.kl_tokens += len(weights_N)


def _add(tally: PolicyTally, sums: list[float], tokens: int) -> None:
    loss, policy_loss, entropy, clipped, ratio, ratio_max = sums
    tally.loss += loss
    tally.policy_loss += policy_loss
    tally.entropy += entropy
    tally.clipped += clipped
    tally.ratio += ratio
    tally.ratio_max = max(tally.ratio_max, ratio_max)
    tally.tokens += tokens


def _metrics(tally: PolicyTally, rate: float) -> dict[str, float]:
    steps, tokens = max(1, tally.steps), max(1, tally.tokens)
    return {
        "loss": tally.loss / steps,
        "policy_loss": tally.policy_loss / steps,
        "entropy": tally.entropy / tokens,
        "grad_norm": tally.grad_norm / steps,
        "clip_fraction": tally.clipped / tokens,
        "ratio/mean": tally.ratio / tokens,
        "ratio/max": tally.ratio_max,
        "kl/k1": tally.kl / max(1, tally.kl_tokens),
        "optimizer_steps": float(tally.steps),
        "lr": rate,
    }
