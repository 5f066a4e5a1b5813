# SPDX-License-Identifier: Apache-2.0
"""Negative log-likelihood: supervised fine-tuning."""

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput


def losses(given: TokenLossInput, options: jobs.Grpo) -> TokenLossOutput:
    """There is no behaviour policy, so the ratio is 1."""
    ones = torch.ones_like(given.logprobs_N)
    return TokenLossOutput(-given.logprobs_N, ones, torch.zeros_like(ones, dtype=torch.bool))


NLL = TokenLoss("nll", losses)
