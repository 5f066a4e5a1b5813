# SPDX-License-Identifier: Apache-2.0
"""CISPO: the clipped ratio is only a weight, so a clipped token keeps its gradient. arXiv 2506.13585; verl."""

from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-clip(ratio, 1-low, 1+high) · A · log-probability, the clipped ratio without gradient."""
    ratio_N = given.ratio_N().detach()
    weight_N = ratio_N.clamp(1 - options.clip_low, 1 + options.clip_high)
    return TokenLossOutput(-weight_N * given.advantages_N * given.logprobs_N, ratio_N, weight_N != ratio_N)


CISPO = TokenLoss("cispo", losses, types.POLICY_LOSS_CISPO)
