# SPDX-License-Identifier: Apache-2.0
"""A job's own algorithm is tried on a few tokens before anything starts."""

from __future__ import annotations

import numpy as np
import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.custom import CustomAlgorithm
from whetstone_trainer.algorithms.estimator import Estimator, Member
from whetstone_trainer.algorithms.guard import FIELD, AlgorithmError
from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput
from whetstone_trainer.contract.errors import SettingsError

# Of three members, the last one masked.
LENGTHS, REWARDS = (2, 5, 0), (1.0, 0.0, 0.5)


def try_custom(custom: CustomAlgorithm, options: jobs.PolicyGradient) -> None:
    """Raises SettingsError for what it raises or gives that cannot be used."""
    try:
        if custom.estimator is not None:
            _try_estimator(custom.estimator, options)
        if custom.token_loss is not None:
            _try_token_loss(custom.token_loss, options)
    except AlgorithmError as error:
        raise SettingsError(FIELD, f"was tried on a few tokens: {error.fault}") from None


def _try_estimator(one: Estimator, options: jobs.PolicyGradient) -> None:
    members = [_member(length, reward) for length, reward in zip(LENGTHS, REWARDS, strict=True)]
    one.advantages(members, options)
    if one.batch_factor is not None:
        one.batch_factor(members)
    if one.returns is not None:
        for member in members:
            one.returns(member, options)


def _member(length: int, reward: float) -> Member:
    rewards_K = np.zeros(length)
    rewards_K[-1:] = reward
    return Member("trial", reward, rewards_K, values_K=np.full(length, 0.25))


def _try_token_loss(one: TokenLoss, options: jobs.PolicyGradient) -> None:
    logprobs_N = torch.tensor([-0.1, -2.0, -5.0, -0.5], requires_grad=True)
    old_N, advantages_N = torch.tensor([-0.1, -1.5, -6.0, -0.5]), torch.tensor([1.0, -1.0, 0.5, -2.0])
    with torch.no_grad():
        terms_N = one.sequence_term(logprobs_N.detach() - old_N, advantages_N, options)
    out = one.losses(TokenLossInput(logprobs_N, old_N, advantages_N, terms_N.mean().expand(4)), options)
    out.losses_N.sum().backward()
