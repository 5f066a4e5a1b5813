# SPDX-License-Identifier: Apache-2.0
"""REINFORCE: the log-derivative alone, whatever policy sampled. Williams 1992; verl `compute_policy_loss_gpg`."""

from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput, unclipped


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-A · log-probability. Importance weights, if any, correct for the policy that sampled."""
    return unclipped(-given.advantages_N * given.logprobs_N, given.ratio_N())


REINFORCE = TokenLoss("reinforce", losses, types.POLICY_LOSS_REINFORCE)
