# SPDX-License-Identifier: Apache-2.0
"""Estimates of the divergence from a reference, one a token. Schulman 2020; verl `kl_penalty`.

Vectors: proto/golden/kl.json.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

LOG_RATIO_BOUND, K3_BOUND = 20.0, 10.0


def k1(logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    return logprobs_N - reference_N


def absolute(logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    return (logprobs_N - reference_N).abs()


def k2(logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    return (logprobs_N - reference_N).square() / 2


def k3(logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    """exp(f - l) - (f - l) - 1; both bounds as in verl."""
    log_ratio_N = (reference_N - logprobs_N).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    return (log_ratio_N.exp() - log_ratio_N - 1).clamp(-K3_BOUND, K3_BOUND)


def k3_plus(logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    """The value of k3 with the gradient of k2, which in expectation is the divergence's."""
    straight = k2(logprobs_N, reference_N)
    return straight - straight.detach() + k3(logprobs_N, reference_N).detach()


# By the value in a job.
DIVERGENCE_OF: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    jobs.KL_ESTIMATOR_K1: k1,
    jobs.KL_ESTIMATOR_ABS: absolute,
    jobs.KL_ESTIMATOR_K2: k2,
    jobs.KL_ESTIMATOR_K3: k3,
    jobs.KL_ESTIMATOR_K3_PLUS: k3_plus,
}


def in_loss(options: jobs.PolicyGradient) -> bool:
    return has_reference(options) and options.kl.applied_to == jobs.KL_PLACE_LOSS


def in_reward(options: jobs.PolicyGradient) -> bool:
    return has_reference(options) and options.kl.applied_to == jobs.KL_PLACE_REWARD


def in_advantage(options: jobs.PolicyGradient) -> bool:
    return has_reference(options) and options.kl.applied_to == jobs.KL_PLACE_ADVANTAGE


def has_reference(options: jobs.PolicyGradient) -> bool:
    return options.HasField("kl") and options.kl.coefficient > 0
