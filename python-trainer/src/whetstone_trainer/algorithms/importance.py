# SPDX-License-Identifier: Apache-2.0
"""Importance weights: what lies between the policy that enters a step and the one that sampled.

A log-ratio is of the first to the second, nats, float64; sequences are lists of them [L]. Sources: verl's rollout
correction, TIS (truncated importance sampling), IcePop, decoupled PPO. Vectors: proto/golden/correction.json.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

LOG_RATIO_BOUND = 20.0
DEFAULT_CAP = 2.0


def importance_weights(log_ratios: Sequence[np.ndarray], settings: jobs.Correction) -> tuple[list[np.ndarray], float]:
    """Of each token of each sequence [L], and the share of tokens whose own weight was out of bounds."""
    raw = _raw(log_ratios, settings)
    if settings.level == jobs.CORRECTION_LEVEL_UNWEIGHTED or not raw:
        return raw, 0.0
    cap = settings.cap if settings.HasField("cap") else DEFAULT_CAP
    out = [(one > cap) | (one < settings.floor) for one in raw]
    if settings.HasField("floor"):
        weights = [np.where(outside, 0.0, one) for one, outside in zip(raw, out, strict=True)]
    else:
        weights = [np.minimum(one, cap) for one in raw]
    if settings.normalize:
        weights = _normalized(weights, settings.level)
    return weights, float(np.concatenate(out).mean())


def off_policy_metrics(log_ratios: Sequence[np.ndarray]) -> dict[str, float]:
    """How far the batch's policy is from the one that sampled; all 0 where they are the same."""
    of_tokens = np.concatenate(log_ratios) if log_ratios else np.zeros(1)
    of_sequences = np.array([one.sum() for one in log_ratios]) if log_ratios else np.zeros(1)
    return {
        "importance/kl": float(-of_tokens.mean()),
        "importance/k3_kl": float((np.exp(of_tokens) - of_tokens - 1).mean()),
        "importance/chi2_token": float((_ratio(of_tokens) ** 2).mean() - 1),
        "importance/chi2_seq": float((_ratio(of_sequences) ** 2).mean() - 1),
    }


def _raw(log_ratios: Sequence[np.ndarray], settings: jobs.Correction) -> list[np.ndarray]:
    if settings.level == jobs.CORRECTION_LEVEL_UNWEIGHTED:
        return [np.ones_like(one) for one in log_ratios]
    if settings.level == jobs.CORRECTION_LEVEL_SEQUENCE:
        return [np.full_like(one, _ratio(one.sum())) for one in log_ratios]
    return [_ratio(one) for one in log_ratios]


def _normalized(weights: list[np.ndarray], level: jobs.CorrectionLevel) -> list[np.ndarray]:
    """Over tokens, or over sequences where each has one weight. Weights that are all 0 stay so."""
    of_sequences = level == jobs.CORRECTION_LEVEL_SEQUENCE
    mean = float(np.mean([one[0] for one in weights]) if of_sequences else np.concatenate(weights).mean())
    return [one / mean for one in weights] if mean > 1e-8 else weights


def _ratio(log_ratios: np.ndarray) -> np.ndarray:
    return np.exp(np.clip(log_ratios, -LOG_RATIO_BOUND, LOG_RATIO_BOUND))
