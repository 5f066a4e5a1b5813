# SPDX-License-Identifier: Apache-2.0
"""The pools of keys and values, and how the tokens of a step attend to them.

A step is planned once with numpy: where each token's key and value go, and which sequences attend together. Layers then
only index tensors; there is no Python work per token.

Shapes: N packed tokens, S tokens that are sampled from, D head size.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from whetstone_engine.attention.chunk import Chunk
from whetstone_engine.attention.padded import Padded
from whetstone_engine.attention.pool import Pool
from whetstone_engine.attention.ragged import Ragged
from whetstone_engine.attention.rows import Ints, on_device, spread
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.scheduler import Batch
from whetstone_engine.slots import SlotTable
from whetstone_models.config import ModelConfig

# Up to these many tokens, and with at most this context, prompts attend together: each alone would cost more in calls
# than padding does.
FEW_TOKENS, SHORT_CONTEXT = 128, 256
_SINGLE, _ALONE = -1, 1 << 20
# How keys and values are read: by our kernel, which a GPU has; where they lie, which only a CPU in float32 can; or
# gathered for each layer.
Way = Literal["kernel", "in place", "gathered"]


class Part(Protocol):
    """Attention of some sequences of a step, the new keys and values of which are in the pools."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, keys: Pool, values: Pool) -> Tensor:
        """Queries [N, heads, D] → [tokens of these sequences, heads, D]."""
        ...


@dataclass(slots=True)
class Plan:
    """One step. `rows_S` are the packed rows to sample from, None when that is every row, and `slots` whose they are.

    `slots_N` are those of all tokens.

    The last layer computes only those, in `last_parts`.
    """

    slots: Ints
    slots_N: Ints
    tokens_N: Tensor
    positions_N: Tensor
    block_N: Tensor
    place_N: Tensor
    parts: list[Part]
    rows_S: Tensor | None
    last_parts: list[Part]


class PagedAttention:
    """Key and value pools of all layers, of one block more than `blocks`: whatever is written there is read by nobody.

    `way`: absent, the best that device and type have.
    """

    def __init__(
        self, config: ModelConfig, blocks: int, dtype: torch.dtype, device: torch.device, way: Way | None = None
    ) -> None:
        self.way: Way = way or _best_way(dtype, device)
        self.spare_block = blocks
        shape = (blocks + 1, config.num_kv_heads, config.head_dim)
        self.keys = [Pool(*shape, self.way == "in place", dtype, device) for _ in range(config.num_layers)]
        self.values = [Pool(*shape, False, dtype, device) for _ in range(config.num_layers)]
        self.last_layer = config.num_layers - 1
        self.config, self.dtype, self.device = config, dtype, device
        self.plan: Plan | None = None

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Writes the new keys and values, then attends part by part. Query and result are [N or S, heads, D]."""
        plan, keys, values = self.plan, self.keys[layer], self.values[layer]
        assert plan is not None
        keys.write(plan.block_N, plan.place_N, key)
        values.write(plan.block_N, plan.place_N, value)
        parts = plan.last_parts if layer == self.last_layer else plan.parts
        results = [part(query, key, value, keys, values) for part in parts]
        return torch.cat(results) if len(results) > 1 else results[0] if results else query

    def make_plan(self, table: SlotTable, batch: Batch) -> Plan:
        """Lays out one step."""
        classes = self._classes(batch)
        order = np.argsort(classes, kind="stable")
        classes, slots, starts, ends = classes[order], batch.slots[order], batch.starts[order], batch.ends[order]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - starts)))
        slot_N, position_N = spread(slots, starts, ends)
        parts = [
            self._part(table, int(classes[i]), slots[i:j], starts[i:j], ends[i:j], int(offsets[i]))
            for i, j in _runs(classes)
        ]
        sampled = np.flatnonzero(ends == table.length[slots])
        every = len(sampled) == offsets[-1]
        last_parts = parts if every else self._last_parts(table, slots[sampled], ends[sampled])
        return Plan(
            slots[sampled],
            slot_N,
            on_device(table.tokens[slot_N, position_N], self.device),
            on_device(position_N, self.device),
            on_device(table.blocks[slot_N, position_N // BLOCK], self.device),
            on_device(position_N % BLOCK, self.device),
            parts,
            None if every else on_device(offsets[1:][sampled] - 1, self.device),
            last_parts,
        )

    def _classes(self, batch: Batch) -> Ints:
        """A number for each sequence; those with the same one attend together."""
        counts, contexts = batch.ends - batch.starts, batch.ends
        if self.way == "kernel":
            return np.zeros(len(counts), np.int64)
        if self.way == "in place" and counts.max() == 1:
            return np.full(len(counts), _SINGLE)
        similar = 64 * _size_class(contexts, 128) + np.where(counts == 1, 0, 1 + _size_class(counts, 64))
        if self.way == "gathered":
            return similar
        large = (counts > FEW_TOKENS) | (contexts > SHORT_CONTEXT)
        alone = np.where(large, _ALONE + np.arange(len(counts)), similar)
        return np.where(counts == 1, _SINGLE, alone)

    def _part(self, table: SlotTable, kind: int, slots: Ints, starts: Ints, ends: Ints, first: int) -> Part:
        if self.way == "kernel":
            from whetstone_engine.attention.kernel import Kernel

            group = self.config.num_heads // self.config.num_kv_heads
            return Kernel.of(table, slots, starts, ends, group, self.device)
        if kind == _SINGLE:
            return Ragged(table, slots, ends, first, self.config)
        if kind >= _ALONE:
            past, count = int(starts[0]), int(ends[0] - starts[0])
            blocks_1W = on_device(table.blocks[slots, : -(-past // BLOCK)], self.device)
            return Chunk(first, first + count, past, blocks_1W)
        return Padded(table, slots, starts, ends, first, self.dtype, self.device)

    def _last_parts(self, table: SlotTable, slots: Ints, ends: Ints) -> list[Part]:
        """One query a sequence, at its last token. The order of `make_plan` keeps similar contexts together."""
        if not len(slots):
            return []
        kinds = _size_class(ends, 128) if self.way == "gathered" else np.full(len(slots), _SINGLE)
        return [self._part(table, int(kinds[i]), slots[i:j], ends[i:j] - 1, ends[i:j], i) for i, j in _runs(kinds)]


def _best_way(dtype: torch.dtype, device: torch.device) -> Way:
    if device.type == "cpu":
        return "in place" if dtype == torch.float32 else "gathered"
    # Builds of PyTorch for NVIDIA's GPUs on Linux bring it.
    return "kernel" if importlib.util.find_spec("triton") else "gathered"


def _size_class(sizes: Ints, smallest: int) -> Ints:
    """0 up to `smallest`, then one class for each factor of 4: padding within a group stays bounded."""
    return np.ceil(np.log(np.maximum(sizes, smallest) / smallest) / np.log(4.0) - 1e-9).astype(np.int64)


def _runs(values: Ints) -> list[tuple[int, int]]:
    """(first, last) of every run of equal values."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return list(pairwise(edges))
