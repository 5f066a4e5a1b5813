# SPDX-License-Identifier: Apache-2.0
"""DPPO: tokens whose probability has moved too far are left out, instead of a clip of the ratio. arXiv 2602.04879; verl
`compute_policy_loss_dppo_tv`, `compute_policy_loss_dppo_kl`."""

import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput

# Of the ratio, where the job has no clip_dual; and what keeps a logarithm from 0.
DEFAULT_CAP, EPSILON = 20.0, 1e-8


def by_total_variation(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """A token is kept while its probability is within [-low, high] of the old one, the way that it is pushed."""
    moved_N = given.logprobs_N.detach().exp() - given.old_logprobs_N.exp()
    kept_N = torch.where(given.advantages_N > 0, moved_N <= options.clip_high, moved_N >= -options.clip_low)
    return _weighed(given, kept_N, options)


def by_divergence(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
    """A token is kept while the divergence between it and all others is at most low or high, or shrinks by the push."""
    new_N, old_N = given.logprobs_N.detach().exp(), given.old_logprobs_N.exp()
    log_ratios_N = given.old_logprobs_N - given.logprobs_N.detach()
    divergences_N = old_N * log_ratios_N + (1 - old_N) * ((1 - old_N + EPSILON) / (1 - new_N + EPSILON)).log()
    up_N = (divergences_N <= options.clip_high) | (new_N <= old_N)
    down_N = (divergences_N <= options.clip_low) | (new_N >= old_N)
    return _weighed(given, torch.where(given.advantages_N > 0, up_N, down_N), options)


def _weighed(given: TokenLossInput, kept_N: Tensor, options: jobs.PolicyGradient) -> TokenLossOutput:
    """-A · min(ratio, cap) · log-probability of what is kept, the ratio without gradient."""
    ratio_N = given.ratio_N().detach()
    weight_N = ratio_N.clamp(max=options.clip_dual or DEFAULT_CAP) * kept_N
    return TokenLossOutput(-given.advantages_N * weight_N * given.logprobs_N, ratio_N, ~kept_N)


DPPO_TV = TokenLoss("dppo-tv", by_total_variation, types.POLICY_LOSS_DPPO_TV)
DPPO_KL = TokenLoss("dppo-kl", by_divergence, types.POLICY_LOSS_DPPO_KL)
