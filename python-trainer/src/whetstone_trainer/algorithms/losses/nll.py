# SPDX-License-Identifier: Apache-2.0
"""Negative log-likelihood: supervised fine-tuning."""

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput, unclipped


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """There is no old policy, so the ratio is 1."""
    return unclipped(-given.logprobs_N, torch.ones_like(given.logprobs_N))


NLL = TokenLoss("nll", losses, wire=None)
