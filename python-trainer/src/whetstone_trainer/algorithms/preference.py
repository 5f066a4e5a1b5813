# SPDX-License-Identifier: Apache-2.0
"""Direct preference optimization: what a pair of conversations costs, and how that changes with its tokens.

A pair is a group of two trajectories: one that was chosen, whose advantage is positive, and one that was rejected. h is
the log-probability of the first minus that of the reference, less the same of the second. Sources: arXiv 2305.18290
(DPO), 2310.12036 (IPO, on means over tokens as in TRL). Vectors: proto/golden/preference.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory


def dpo(h_P: Tensor, options: jobs.Dpo) -> Tensor:
    """-log sigmoid(beta * h); with label smoothing a share of the pairs counts the wrong way round."""
    right_P, wrong_P = -F.logsigmoid(options.beta * h_P), -F.logsigmoid(-options.beta * h_P)
    return (1 - options.label_smoothing) * right_P + options.label_smoothing * wrong_P


def ipo(h_P: Tensor, options: jobs.Dpo) -> Tensor:
    """(h - 1 / (2 beta))^2."""
    return (h_P - 1 / (2 * options.beta)) ** 2


LOSS_OF: dict[jobs.DpoVariant, Callable[[Tensor, jobs.Dpo], Tensor]] = {
    jobs.DPO_VARIANT_DPO: dpo,
    jobs.DPO_VARIANT_IPO: ipo,
}


@dataclass(frozen=True)
class Answers:
    """The chosen, or the rejected, conversations of P pairs, over all their rows; float64."""

    logprobs_P: np.ndarray
    reference_P: np.ndarray
    tokens_P: np.ndarray

    @property
    def log_ratios_P(self) -> np.ndarray:
        return self.logprobs_P - self.reference_P


@dataclass(frozen=True)
class PairLoss:
    """Losses [P], and their derivatives by the log-probability of each token of what was chosen, and rejected."""

    losses_P: np.ndarray
    chosen_P: np.ndarray
    rejected_P: np.ndarray


def pair_loss(chosen: Answers, rejected: Answers, options: jobs.Dpo) -> PairLoss:
    """IPO takes means over tokens, so that its target is the same for conversations of every length."""
    by_mean = options.variant == jobs.DPO_VARIANT_IPO
    lengths = [one.tokens_P if by_mean else np.ones(len(one.tokens_P)) for one in (chosen, rejected)]
    h_P = torch.from_numpy(chosen.log_ratios_P / lengths[0] - rejected.log_ratios_P / lengths[1]).requires_grad_()
    losses_P = LOSS_OF[options.variant](h_P, options)
    (slopes_P,) = torch.autograd.grad(losses_P.sum(), h_P)
    return PairLoss(losses_P.detach().numpy(), slopes_P.numpy() / lengths[0], -slopes_P.numpy() / lengths[1])


def with_pairs(rows: Sequence[Row], trajectories: Sequence[Trajectory]) -> list[Row]:
    """The rows, which are of whole pairs, with the index of theirs."""
    index_of: dict[str, int] = {}
    for row in rows:
        index_of.setdefault(trajectories[row.trajectory].group, len(index_of))
    return [replace(row, pair=index_of[trajectories[row.trajectory].group]) for row in rows]


def is_chosen(row: Row) -> bool:
    return bool(row.advantages[0] > 0)


@dataclass(frozen=True)
class JudgedPairs:
    """What pairs say of a policy."""

    # See docs/metrics.md. Means over the pairs.
    metrics: dict[str, float]
    # Derivative of the mean loss by the log-probability of each token of a row, in the order of the rows.
    slopes: list[float]


def judged_pairs(rows: Sequence[Row], logprobs: Sequence[np.ndarray], options: jobs.Dpo) -> JudgedPairs:
    """`rows`: of whole pairs, with their `reference`. `logprobs`: of each row's trained tokens [K] under the policy."""
    pairs = list(dict.fromkeys(row.pair for row in rows))
    place = {(pair, side): 2 * index + side for index, pair in enumerate(pairs) for side in (False, True)}
    place_R = np.array([place[row.pair, is_chosen(row)] for row in rows])

    def summed(values_R: Sequence[float]) -> np.ndarray:
        return np.bincount(place_R, values_R, 2 * len(pairs))

    sums = (
        summed([one.sum(dtype=np.float64) for one in logprobs]),
        summed([row.reference.sum(dtype=np.float64) for row in rows]),
        summed([len(row.positions) for row in rows]),
    )
    rejected, chosen = (Answers(*(one[side::2] for one in sums)) for side in (0, 1))
    found = pair_loss(chosen, rejected, options)
    slopes = np.stack([found.rejected_P, found.chosen_P], axis=1).flatten() / len(pairs)
    return JudgedPairs(_metrics(chosen, rejected, found, options.beta), slopes[place_R].tolist())


def _metrics(chosen: Answers, rejected: Answers, found: PairLoss, beta: float) -> dict[str, float]:
    rewards_P, others_P = beta * chosen.log_ratios_P, beta * rejected.log_ratios_P
    return {
        "loss": float(found.losses_P.mean()),
        "rewards/chosen": float(rewards_P.mean()),
        "rewards/rejected": float(others_P.mean()),
        "rewards/margins": float((rewards_P - others_P).mean()),
        "rewards/accuracies": float((rewards_P > others_P).mean()),
        "logps/chosen": float(chosen.logprobs_P.mean()),
        "logps/rejected": float(rejected.logprobs_P.mean()),
    }
