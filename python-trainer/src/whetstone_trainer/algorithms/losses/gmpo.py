# SPDX-License-Identifier: Apache-2.0
"""GMPO: the geometric mean of clipped ratios, one a sequence. arXiv 2507.20673; verl `compute_policy_loss_geo_mean`."""

import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput


def clipped(log_ratios_N: Tensor, advantages_N: Tensor, options: jobs.PolicyGradient) -> Tensor:
    """Log-ratios no further than [-low, high] the way that the advantage pushes."""
    bounded = log_ratios_N.clamp(-options.clip_low, options.clip_high)
    return torch.where(advantages_N < 0, torch.maximum(log_ratios_N, bounded), torch.minimum(log_ratios_N, bounded))


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-A·s, s the sequence's ratio; each token that is not clipped gives it its own gradient."""
    log_ratios_N = given.logprobs_N - given.old_logprobs_N
    own_N = clipped(log_ratios_N, given.advantages_N, options)
    ratio_N = (own_N - own_N.detach() + given.sequence_log_ratios_N).exp()
    return TokenLossOutput(-given.advantages_N * ratio_N, ratio_N.detach(), (own_N != log_ratios_N).detach())


GMPO = TokenLoss("gmpo", losses, types.POLICY_LOSS_GMPO, of_sequences=True, sequence_term=clipped)
