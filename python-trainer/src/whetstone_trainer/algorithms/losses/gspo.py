# SPDX-License-Identifier: Apache-2.0
"""GSPO: one ratio a sequence, the geometric mean of its tokens' ratios. arXiv 2507.18071; verl."""

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput

MAX_LOG_RATIO = 10.0


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """max(-A·s, -A·clip(s, 1-low, 1+high)), s the sequence's ratio; each token gives it its own gradient."""
    own_N = given.logprobs_N - given.logprobs_N.detach()
    ratio_N = (own_N + given.sequence_log_ratios_N).clamp(max=MAX_LOG_RATIO).exp()
    plain = -given.advantages_N * ratio_N
    bounded = -given.advantages_N * ratio_N.clamp(1 - options.clip_low, 1 + options.clip_high)
    return TokenLossOutput(torch.maximum(plain, bounded), ratio_N.detach(), (bounded > plain).detach())


GSPO = TokenLoss("gspo", losses, types.POLICY_LOSS_GSPO, of_sequences=True)
