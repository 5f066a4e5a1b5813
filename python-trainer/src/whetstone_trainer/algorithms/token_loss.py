# SPDX-License-Identifier: Apache-2.0
"""What a file of `losses/` defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs


@dataclass(frozen=True)
class TokenLossInput:
    """What a token loss may look at; all [N], N trained tokens. Unit of log-probabilities: nats."""

    logprobs_N: Tensor
    behaviour_N: Tensor
    advantages_N: Tensor


@dataclass(frozen=True)
class TokenLossOutput:
    """Losses [N] with gradient; ratio and clipped [N] without, for the metrics."""

    losses_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor


@dataclass(frozen=True)
class TokenLoss:
    """The loss of each trained token. `aggregation` makes one number of them."""

    name: str
    losses: Callable[[TokenLossInput, jobs.Grpo], TokenLossOutput]
