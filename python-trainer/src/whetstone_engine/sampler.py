# SPDX-License-Identifier: Apache-2.0
"""Samples one token for each row of logits, all rows at once.

Randomness is counter-based: u = hash(seed, position of the sampled token), then the inverse of the cumulative
distribution. A sample therefore depends on its own row alone, whatever else is in the batch, and a request that was
aborted and resubmitted with its partial answer as prompt goes on with the same draws.
Log-probabilities are "processed": after temperature and truncation; greedy rows report those of the raw logits.

Shapes: S rows (sequences), V vocabulary. Order of filters as in vLLM: temperature, min_p, top_k, top_p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats, Ints = NDArray[np.float32], NDArray[np.int64]
_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(slots=True)
class RowParams:
    """Parameters of every row, [S] each; `logprobs` is the number of alternatives wanted, -1 for no logprobs."""

    temperature: Floats
    top_p: Floats
    top_k: Ints
    min_p: Floats
    seed: NDArray[np.uint64]
    logprobs: Ints


@dataclass(slots=True)
class Sampled:
    """One token a row: ids [S], logprobs [S] (nats), ranks [S] (1 = most likely; 0 if no row wants logprobs).

    `alternatives[row]` lists (token id, logprob, rank) for rows that want more than the sampled token.
    `supports[row]` holds the ids that truncation kept, ascending, for rows that want logprobs and have a top_k: that
    bounds them. A trainer needs them to take probabilities over the same tokens.
    """

    token_ids: Ints
    logprobs: Floats
    ranks: Ints
    alternatives: dict[int, list[tuple[int, float, int]]]
    supports: dict[int, Ints]


def sample(logits_SV: Tensor, rows: RowParams, positions_S: Ints) -> Sampled:
    """Draws a token for each row. `logits_SV` is float32 and may be overwritten; positions index the drawn token."""
    greedy = rows.temperature == 0.0
    scaled_SV = _temper(logits_SV, rows.temperature, greedy)
    truncated = ~greedy & ((rows.top_p < 1.0) | (rows.top_k > 0) | (rows.min_p > 0.0))
    if truncated.any():
        scaled_SV = _truncate_rows(scaled_SV, rows, truncated)
    peak_S1 = scaled_SV.amax(-1, keepdim=True)
    weights_SV = (scaled_SV - peak_S1).exp_()
    if greedy.all():
        total_S1, tokens_S1 = weights_SV.sum(-1, keepdim=True), scaled_SV.argmax(-1, keepdim=True)
    else:
        total_S1, tokens_S1 = _draw(weights_SV, uniform(rows.seed, positions_S))
        if greedy.any():
            greedy_S1 = torch.from_numpy(greedy).to(scaled_SV.device).unsqueeze(-1)
            tokens_S1 = torch.where(greedy_S1, scaled_SV.argmax(-1, keepdim=True), tokens_S1)
    normaliser_S1 = peak_S1 + total_S1.log().float()
    chosen_S1 = scaled_SV.gather(-1, tokens_S1)
    ranks = _ranks(scaled_SV, chosen_S1, rows.logprobs)
    logprobs = (chosen_S1 - normaliser_S1).squeeze(-1).cpu().numpy()
    alternatives = _alternatives(scaled_SV, normaliser_S1, rows.logprobs)
    supports = _supports(scaled_SV, truncated & (rows.top_k > 0) & (rows.logprobs >= 0))
    return Sampled(tokens_S1.squeeze(-1).cpu().numpy(), logprobs, ranks, alternatives, supports)


def uniform(seeds_S: NDArray[np.uint64], positions_S: Ints) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 52 random bits, from splitmix64 over (seed, position)."""
    with np.errstate(over="ignore"):
        state = _mix(_mix(seeds_S + _GOLDEN) + positions_S.astype(np.uint64) * _GOLDEN)
    return (state >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def _temper(logits_SV: Tensor, temperature: Floats, greedy: NDArray[np.bool_]) -> Tensor:
    divisor = np.where(greedy, np.float32(1.0), temperature)
    if (divisor == 1.0).all():
        return logits_SV
    return logits_SV.div_(torch.from_numpy(divisor).to(logits_SV.device).unsqueeze(-1))


def _draw(weights_SV: Tensor, uniform_S: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
    """Inverse CDF in float64: the first token whose cumulative weight exceeds u · total. Weight 0 is never drawn."""
    cumulative_SV = weights_SV.cumsum(-1, dtype=torch.float64)
    total_S1 = cumulative_SV[:, -1:]
    target_S1 = torch.from_numpy(uniform_S).to(weights_SV.device).unsqueeze(-1) * total_S1
    return total_S1, torch.searchsorted(cumulative_SV, target_S1, right=True).clamp_(max=weights_SV.shape[-1] - 1)


def _truncate_rows(scaled_SV: Tensor, rows: RowParams, chosen: NDArray[np.bool_]) -> Tensor:
    """Filters only the rows that ask for it; the rest skip the sort."""
    if chosen.all():
        return truncate(scaled_SV, rows.top_p, rows.top_k, rows.min_p)
    index = torch.from_numpy(np.flatnonzero(chosen)).to(scaled_SV.device)
    kept = truncate(scaled_SV[index], rows.top_p[chosen], rows.top_k[chosen], rows.min_p[chosen])
    return scaled_SV.index_copy(0, index, kept)


def truncate(scaled_SV: Tensor, top_p: Floats, top_k: Ints, min_p: Floats) -> Tensor:
    """-inf for every token outside min_p, top_k (ties kept) and top_p (at least one kept)."""
    device, vocabulary = scaled_SV.device, scaled_SV.shape[-1]
    if (min_p > 0.0).any():
        with np.errstate(divide="ignore"):
            floor_S1 = torch.from_numpy(np.log(min_p)).to(device).unsqueeze(-1)
        scaled_SV = scaled_SV.masked_fill(scaled_SV < scaled_SV.amax(-1, keepdim=True) + floor_S1, -torch.inf)
    limits = np.where((top_k <= 0) | (top_k > vocabulary), vocabulary, top_k)
    if (top_p >= 1.0).all():
        if limits.min() == vocabulary:
            return scaled_SV
        return _keep_top_k(scaled_SV, scaled_SV.topk(int(limits.max()), -1).values, limits)
    sorted_SV, order_SV = scaled_SV.sort(stable=True, dim=-1, descending=True)
    sorted_SV = _keep_top_k(sorted_SV, sorted_SV, limits)
    probabilities = sorted_SV.softmax(-1)
    before_SV = probabilities.cumsum(-1) - probabilities
    excess_SV = before_SV >= torch.from_numpy(top_p).to(device).unsqueeze(-1)
    excess_SV[:, 0] = False
    return torch.full_like(scaled_SV, -torch.inf).scatter_(-1, order_SV, sorted_SV.masked_fill(excess_SV, -torch.inf))


def _keep_top_k(values_SV: Tensor, sorted_SV: Tensor, limits: Ints) -> Tensor:
    threshold_S1 = sorted_SV.gather(-1, torch.from_numpy(limits - 1).to(values_SV.device).unsqueeze(-1))
    return values_SV.masked_fill(values_SV < threshold_S1, -torch.inf)


def _supports(scaled_SV: Tensor, asked: NDArray[np.bool_]) -> dict[int, Ints]:
    rows = np.flatnonzero(asked)
    if not len(rows):
        return {}
    kept_SV = torch.isfinite(scaled_SV[torch.from_numpy(rows).to(scaled_SV.device)])
    ids = kept_SV.nonzero()[:, 1].cpu().numpy()
    ends = np.cumsum(kept_SV.sum(-1).cpu().numpy())
    return dict(zip(rows.tolist(), np.split(ids, ends[:-1]), strict=True))


def _ranks(scaled_SV: Tensor, chosen_S1: Tensor, wanted: Ints) -> Ints:
    if (wanted < 0).all():
        return np.zeros(len(wanted), np.int64)
    return (scaled_SV >= chosen_S1).sum(-1).cpu().numpy()


def _alternatives(scaled_SV: Tensor, normaliser_S1: Tensor, wanted: Ints) -> dict[int, list[tuple[int, float, int]]]:
    """The k most likely tokens for rows with k > 0; JSON has no -inf, so filtered tokens read -9999 as in vLLM."""
    rows = np.flatnonzero(wanted > 0)
    if not len(rows):
        return {}
    index = torch.from_numpy(rows).to(scaled_SV.device)
    best = scaled_SV[index].topk(min(int(wanted.max()), scaled_SV.shape[-1]), -1)
    logprobs = (best.values - normaliser_S1[index]).clamp_(min=-9999.0).tolist()
    ids = best.indices.tolist()
    return {
        row: [(ids[i][j], logprobs[i][j], j + 1) for j in range(min(int(wanted[row]), len(ids[i])))]
        for i, row in enumerate(rows.tolist())
    }
