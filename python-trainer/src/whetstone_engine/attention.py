# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged KV cache, for packed tokens of many sequences at once.

A step is planned once with numpy: where each token's key and value go, and for each group of sequences of similar size
which cache rows it reads. Layers then only index tensors; there is no Python work per token or per sequence.

Shapes: N packed tokens, B sequences of a group, Q queries each (padded), K context each (padded), D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.slots import SlotTable
from whetstone_models.config import ModelConfig

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Group:
    """Sequences that attend together. `cache_BK` are cache rows, `mask` is added to the scores.

    With one query a sequence (Q = 1) the packed rows are used as they are; otherwise `queries_BQ` picks them with
    padding, and `real` picks the unpadded results back.
    """

    first: int
    last: int
    width: int
    cache_BK: Tensor
    mask: Tensor
    queries_BQ: Tensor | None = None
    real: Tensor | None = None


@dataclass(slots=True)
class Plan:
    """One step: sequences in `order`, their packed tokens and positions, and the attention groups.

    `rows_S` are the packed rows to sample from, None when every row is one; the last layer computes only those,
    in `last_groups`.
    """

    order: Ints
    tokens_N: Tensor
    positions_N: Tensor
    write_N: Tensor
    groups: list[Group]
    rows_S: Tensor | None
    last_groups: list[Group]


class PagedAttention:
    """Key and value pools of all layers, each [blocks · 16, kv_heads, D]. Zeros: lazily backed by memory on a CPU."""

    def __init__(self, config: ModelConfig, blocks: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (blocks * BLOCK, config.num_kv_heads, config.head_dim)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_layers)]
        self.values = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_layers)]
        self.last_layer = config.num_layers - 1
        self.plan: Plan | None = None

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Writes the new keys and values, then attends group by group. Query and result are [N or S, heads, D]."""
        assert self.plan is not None
        keys, values = self.keys[layer], self.values[layer]
        keys.index_copy_(0, self.plan.write_N, key)
        values.index_copy_(0, self.plan.write_N, value)
        groups = self.plan.last_groups if layer == self.last_layer else self.plan.groups
        parts = [_attend(group, query, keys, values) for group in groups]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend(group: Group, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    batch, heads, dim = group.cache_BK.shape[0] // group.width, query.shape[1], query.shape[2]
    key = keys.index_select(0, group.cache_BK).unflatten(0, (batch, group.width)).transpose(1, 2)
    value = values.index_select(0, group.cache_BK).unflatten(0, (batch, group.width)).transpose(1, 2)
    if group.queries_BQ is None or group.real is None:
        # One query a sequence: the heads that share a key head are laid out as that head's queries.
        shared = query[group.first : group.last].view(batch, key.shape[1], heads // key.shape[1], dim)
        return F.scaled_dot_product_attention(shared, key, value, group.mask).reshape(batch, heads, dim)
    padded = query.index_select(0, group.queries_BQ).unflatten(0, (batch, -1)).transpose(1, 2)
    out = F.scaled_dot_product_attention(padded, key, value, group.mask, enable_gqa=heads != key.shape[1])
    return out.transpose(1, 2).flatten(0, 1).index_select(0, group.real)


def make_plan(table: SlotTable, slots: Ints, starts: Ints, device: torch.device, dtype: torch.dtype) -> Plan:
    """Lays out one step for sequences in `slots`, whose tokens from `starts` to their length are to be computed."""
    lengths = table.length[slots]
    counts = lengths - starts
    by_context, by_count = _size_class(lengths, 128), np.where(counts == 1, 0, 1 + _size_class(counts, 64))
    order = np.lexsort((by_count, by_context))
    slots, starts, lengths, counts = slots[order], starts[order], lengths[order], counts[order]
    ends = np.cumsum(counts)
    slot_N = np.repeat(slots, counts)
    position_N = np.arange(ends[-1]) - np.repeat(ends - counts - starts, counts)
    write_N = table.blocks[slot_N, position_N // BLOCK] * BLOCK + position_N % BLOCK
    context = _Context(table, slots, starts, lengths, counts, ends - counts, device, dtype)
    single = bool((counts == 1).all())
    edges = by_context[order] * 64 + by_count[order]
    groups = [context.group(first, last) for first, last in _runs(edges)]
    last_groups = groups if single else [context.final(first, last) for first, last in _runs(by_context[order])]
    rows_S = None if single else _tensor(ends - 1, device)
    tokens = _tensor(table.tokens[slot_N, position_N], device)
    return Plan(order, tokens, _tensor(position_N, device), _tensor(write_N, device), groups, rows_S, last_groups)


@dataclass(slots=True)
class _Context:
    """What building a group needs; arrays are per sequence, in plan order; `offsets` are first packed rows."""

    table: SlotTable
    slots: Ints
    starts: Ints
    lengths: Ints
    counts: Ints
    offsets: Ints
    device: torch.device
    dtype: torch.dtype

    def group(self, first: int, last: int) -> Group:
        """Queries of all new tokens of sequences first..last-1."""
        counts, starts, offsets = self.counts[first:last], self.starts[first:last], self.offsets[first:last]
        if counts.max() == 1:
            return self.final(first, last, int(offsets[0]))
        query_BQ = np.minimum(np.arange(counts.max()), counts[:, None] - 1)  # padding repeats the last real query
        cache, width = self._cache_rows(first, last)
        seen = np.arange(width) <= (starts[:, None] + query_BQ)[:, :, None]
        real = np.flatnonzero(np.arange(counts.max()) < counts[:, None])
        rows = _tensor((offsets[:, None] + query_BQ).ravel(), self.device)
        mask = self._mask(seen[:, None])
        return Group(first, last, width, cache, mask, rows, _tensor(real, self.device))

    def final(self, first: int, last: int, row: int | None = None) -> Group:
        """One query a sequence, at its last token. `row` is the packed row of the first (default: its index)."""
        cache, width = self._cache_rows(first, last)
        mask = self._mask((np.arange(width) < self.lengths[first:last, None])[:, None, None])
        begin = first if row is None else row
        return Group(begin, begin + last - first, width, cache, mask)

    def _cache_rows(self, first: int, last: int) -> tuple[Tensor, int]:
        width = int(self.lengths[first:last].max())
        blocks = self.table.blocks[self.slots[first:last], : -(-width // BLOCK)]
        rows = (blocks[:, :, None] * BLOCK + np.arange(BLOCK)).reshape(last - first, -1)[:, :width]
        return _tensor(rows.ravel(), self.device), width

    def _mask(self, seen: NDArray[np.bool_]) -> Tensor:
        hidden = torch.from_numpy(~seen).to(self.device)
        return torch.zeros(seen.shape, dtype=self.dtype, device=self.device).masked_fill_(hidden, -torch.inf)


def _size_class(sizes: Ints, smallest: int) -> Ints:
    """0 up to `smallest`, then one class for each factor of 4: padding within a group stays bounded."""
    return np.ceil(np.log(np.maximum(sizes, smallest) / smallest) / np.log(4.0) - 1e-9).astype(np.int64)


def _runs(values: Ints) -> list[tuple[int, int]]:
    """(first, last) of every run of equal values."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return list(pairwise(edges))


def _tensor(array: Ints, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
