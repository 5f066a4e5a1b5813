# SPDX-License-Identifier: Apache-2.0
"""What a model call says of the tokens that it sampled (I4, I5). Raises ContractError for what cannot be so."""

from __future__ import annotations

import math

import numpy as np
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.rows import UNSAMPLED, WHOLE
from whetstone_trainer.contract.errors import ContractError


def demonstration_mask(call: types.ModelCall, where: str) -> list[bool]:
    if not call.demonstration_mask:
        return [True] * len(call.completion_ids)
    if len(call.demonstration_mask) != len(call.completion_ids):
        raise ContractError(
            f"{where}: {len(call.completion_ids)} completion ids but {len(call.demonstration_mask)} mask values"
        )
    return [value == 1 for value in call.demonstration_mask]


def logprobs_of(call: types.ModelCall, where: str) -> list[float]:
    logprobs = list(call.logprobs)
    if len(logprobs) != len(call.completion_ids):
        raise ContractError(f"{where}: {len(call.completion_ids)} completion ids but {len(logprobs)} logprobs")
    if not all(map(math.isfinite, logprobs)):
        raise ContractError(f"{where}: a log-probability is not finite")
    return logprobs


def supports_of(call: types.ModelCall, where: str) -> list[np.ndarray]:
    """The ids that each completion token was drawn from."""
    count, counts = len(call.completion_ids), list(call.support_counts)
    if not counts:
        return [WHOLE] * count
    if len(counts) != count or sum(counts) != len(call.support_ids):
        raise ContractError(
            f"{where}: {len(call.support_ids)} support ids in {len(counts)} supports of {count} completion ids"
        )
    supports = np.split(np.array(call.support_ids, dtype=np.int64), np.cumsum(counts)[:-1])
    for index, (token_id, support) in enumerate(zip(call.completion_ids, supports, strict=True)):
        if token_id not in support:
            raise ContractError(f"{where}: token {index} is not in its own support")
    return supports


def versions_of(call: types.ModelCall, where: str, step: int) -> list[int]:
    """The label of each completion token. I5: a token outside every span is unlabelled and never trained."""
    count = len(call.completion_ids)
    versions = [UNSAMPLED] * count
    for span in call.version_spans:
        if not span.start <= span.end <= count:
            raise ContractError(f"{where}: version span [{span.start}, {span.end}) of {count} tokens")
        if span.policy_version > step:
            raise ContractError(f"{where}: version {span.policy_version} is newer than step {step} can have sampled")
        if any(version != UNSAMPLED for version in versions[span.start : span.end]):
            raise ContractError(f"{where}: version span [{span.start}, {span.end}) has tokens of another span (I5)")
        versions[span.start : span.end] = [span.policy_version] * (span.end - span.start)
    if UNSAMPLED in versions:
        raise ContractError(f"{where}: token {versions.index(UNSAMPLED)} of {count} has no policy version (I5)")
    return versions


def is_context(call: types.ModelCall, episode: types.Episode) -> bool:
    """Whether it was drawn in a way that no step can train."""
    if episode.purpose == types.PURPOSE_DEMONSTRATION:
        return False
    if call.altered_by:
        return True
    is_unknown = _is_truncated(call.sampling) and not call.support_counts
    return is_unknown or not 0 < temperature_of(call.sampling) < math.inf


def _is_truncated(sampling: types.Sampling) -> bool:
    is_whole = not sampling.HasField("top_p") or sampling.top_p >= 1
    return not is_whole or sampling.top_k > 0 or not sampling.min_p <= 0


def temperature_of(sampling: types.Sampling) -> float:
    return sampling.temperature if sampling.HasField("temperature") else 1.0
