# SPDX-License-Identifier: Apache-2.0
"""What a file of `losses/` defines, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1.types_pb2 import PolicyLoss

# Bound of a log-ratio before it is exponentiated, as in verl.
LOG_RATIO_BOUND = 20.0


@dataclass(frozen=True)
class TokenLossInput:
    """What a token loss may look at; all [N], N trained tokens. Unit of log-probabilities: nats."""

    # With gradient.
    logprobs_N: Tensor
    # Of the policy that the ratio is taken to.
    old_logprobs_N: Tensor
    advantages_N: Tensor
    # Mean of `TokenLoss.sequence_term` over the token's sequence, which is its trajectory; without gradient.
    sequence_log_ratios_N: Tensor

    def ratio_N(self) -> Tensor:
        """Current to old policy, with gradient."""
        return (self.logprobs_N - self.old_logprobs_N).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp()

    def of(self, tokens_P: Tensor) -> TokenLossInput:
        """Of these of the N tokens, by index."""
        return TokenLossInput(*(getattr(self, field.name)[tokens_P] for field in fields(self)))


@dataclass(frozen=True)
class TokenLossOutput:
    """Losses [N] with gradient; ratio and clipped [N] without, for the metrics."""

    losses_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor


def unclipped(losses_N: Tensor, ratio_N: Tensor) -> TokenLossOutput:
    """Of a loss that clips nothing."""
    return TokenLossOutput(losses_N, ratio_N.detach(), torch.zeros_like(losses_N, dtype=torch.bool))


def log_ratios(log_ratios_N: Tensor, advantages_N: Tensor, options: jobs.PolicyGradient) -> Tensor:
    """As they are."""
    return log_ratios_N


@dataclass(frozen=True)
class TokenLoss:
    """The loss of each trained token. `aggregation` makes one number of them."""

    # As in proto/golden/policy_loss.json.
    name: str
    losses: Callable[[TokenLossInput, jobs.PolicyGradient], TokenLossOutput]
    # How a job asks for it; None: it cannot.
    wire: PolicyLoss | None
    # It reads `sequence_log_ratios_N`.
    of_sequences: bool = False
    # A token has a gradient though its advantage is 0.
    always_pulls: bool = False
    # What is averaged over a sequence: of current minus old log-probabilities [N] and advantages [N].
    sequence_term: Callable[[Tensor, Tensor, jobs.PolicyGradient], Tensor] = log_ratios
