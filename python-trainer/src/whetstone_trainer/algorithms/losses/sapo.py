# SPDX-License-Identifier: Apache-2.0
"""SAPO: a sigmoid of the ratio instead of a clip, steeper where A < 0. arXiv 2511.20347; verl."""

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput, unclipped

# Temperatures of the gate for A > 0, and for the others: the paper's.
TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05


def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-A · 4/τ · σ(τ·(ratio - 1))."""
    ratio_N = given.ratio_N()
    tau_N = torch.full_like(given.advantages_N, TAU_NEGATIVE).masked_fill(given.advantages_N > 0, TAU_POSITIVE)
    return unclipped(-given.advantages_N * torch.sigmoid(tau_N * (ratio_N - 1)) * 4 / tau_N, ratio_N)


SAPO = TokenLoss("sapo", losses, types.POLICY_LOSS_SAPO)
