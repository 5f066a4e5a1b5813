# SPDX-License-Identifier: Apache-2.0
"""DRO: a quadratic penalty on the log-ratio instead of a clip. arXiv 2405.19107; verl `compute_policy_loss_dro`."""

from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput, unclipped


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-(A · log-probability - β/2 · log-ratio²)."""
    penalty_N = options.dro_beta / 2 * (given.logprobs_N - given.old_logprobs_N).square()
    return unclipped(penalty_N - given.advantages_N * given.logprobs_N, given.ratio_N())


DRO = TokenLoss("dro", losses, types.POLICY_LOSS_DRO, always_pulls=True)
