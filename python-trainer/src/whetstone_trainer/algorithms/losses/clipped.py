# SPDX-License-Identifier: Apache-2.0
"""PPO's clipped surrogate with the dual clip. arXiv 1707.06347, 1912.09729; verl `compute_policy_loss_vanilla`."""

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """max(-A·ratio, -A·clip(ratio, 1-low, 1+high)), with the dual clip for A < 0."""
    ratio_N, advantages_N = given.ratio_N(), given.advantages_N
    plain = -advantages_N * ratio_N
    bounded = -advantages_N * ratio_N.clamp(1 - options.clip_low, 1 + options.clip_high)
    losses_N = torch.maximum(plain, bounded)
    if options.clip_dual > 0:
        dual = torch.minimum(losses_N, -advantages_N * options.clip_dual)
        losses_N = torch.where(advantages_N < 0, dual, losses_N)
    return TokenLossOutput(losses_N, ratio_N.detach(), (bounded > plain).detach())


CLIPPED = TokenLoss("clipped", losses, types.POLICY_LOSS_CLIPPED)
