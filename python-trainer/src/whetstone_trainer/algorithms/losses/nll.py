# SPDX-License-Identifier: Apache-2.0
"""Negative log-likelihood: supervised fine-tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput

if TYPE_CHECKING:
    from whetstone_trainer.contract.settings import AlgorithmSettings


def losses(given: TokenLossInput, settings: AlgorithmSettings) -> TokenLossOutput:
    """There is no behaviour policy, so the ratio is 1."""
    del settings
    ones = torch.ones_like(given.logprobs_N)
    return TokenLossOutput(-given.logprobs_N, ones, torch.zeros_like(ones, dtype=torch.bool))


NLL = TokenLoss("nll", losses)
