# SPDX-License-Identifier: Apache-2.0
"""Attention of any sequences of a step, by one Triton kernel that reads keys and values where they lie. For a GPU.

A program takes some neighbouring queries of one sequence, with all heads that share a key head, and goes over the
sequence's blocks up to its last query. Nothing is gathered or padded, and a row's result depends on that row alone.

Shapes: S sequences, W blocks of the longest of them, N packed tokens, P programs a key head, D head size.
Source: FlashAttention, arXiv 2205.14135, algorithm 1; PagedAttention, arXiv 2309.06180.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from whetstone_engine.attention.pool import Pool
from whetstone_engine.attention.rows import Ints, spread, together
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.slots import SlotTable

# Keys of one round of a program; rows (queries times heads) of a program, where sequences have several queries each.
KEYS, ROWS = 64, 64
LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Sequences:
    """int64 tensors. The queries of sequence s are rows from `offsets_S` on, at positions from `starts_S` on."""

    blocks_SW: Tensor
    starts_S: Tensor
    counts_S: Tensor
    offsets_S: Tensor
    # The sequence of each program, and which of its queries is the program's first.
    sequence_P: Tensor
    first_P: Tensor


class Kernel:
    """Attention of `sequences`, `queries` of one sequence a program."""

    def __init__(self, sequences: Sequences, queries: int) -> None:
        self._sequences, self._queries = sequences, queries

    @staticmethod
    def of(table: SlotTable, slots: Ints, starts: Ints, ends: Ints, group: int, device: torch.device) -> Kernel:
        """Sequences in `slots`, one after the other. `group`: heads that share a key head."""
        counts = ends - starts
        queries = 1 if counts.max() == 1 else max(1, ROWS // group)
        sequence_P, tile_P = spread(np.arange(len(slots)), np.zeros_like(counts), -(-counts // queries))
        blocks_SW = table.blocks[slots, : -(-int(ends.max()) // BLOCK)]
        offsets = np.cumsum(counts) - counts
        given = (blocks_SW, starts, counts, offsets, sequence_P, tile_P * queries)
        return Kernel(Sequences(*together(given, device)), queries)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, keys: Pool, values: Pool) -> Tensor:
        """Queries [N, heads, D] → the same, whose new keys and values are in the pools."""
        given, (_, heads, dim) = self._sequences, query.shape
        kv_heads = key.shape[1]
        group = heads // kv_heads
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        tensors = (given.blocks_SW, given.starts_S, given.counts_S, given.offsets_S, given.sequence_P, given.first_P)
        launch: Any = _attend[(len(given.sequence_P), kv_heads)]
        launch(
            *(out, query, keys.data, values.data, *tensors),
            *(query.stride(0), query.stride(1), given.blocks_SW.shape[1], dim**-0.5 * LOG2_E),
            KV_HEADS=kv_heads,
            GROUP=group,
            DIM=dim,
            WIDTH=max(16, triton.next_power_of_2(dim)),
            QUERIES=self._queries,
            ROWS=max(16, triton.next_power_of_2(self._queries * group)),
            KEYS=KEYS,
            BLOCK=BLOCK,
            PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        )
        return out


@triton.jit
def _attend(
    out,
    query,
    keys,
    values,
    blocks,
    starts,
    counts,
    offsets,
    sequences,
    firsts,
    query_stride,
    head_stride,
    table_width,
    scale,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Softmax relative to the greatest score so far, by powers of 2: `scale` has the logarithm of e in it."""
    program, kv_head = tl.program_id(0), tl.program_id(1)
    sequence, first = tl.load(sequences + program), tl.load(firsts + program)
    start, count, offset = tl.load(starts + sequence), tl.load(counts + sequence), tl.load(offsets + sequence)
    row, dim = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    asked, head = first + row // GROUP, kv_head * GROUP + row % GROUP
    is_real = ((row < QUERIES * GROUP) & (asked < count))[:, None] & (dim < DIM)[None, :]
    asked_RD = tl.load(
        query + (offset + asked)[:, None] * query_stride + head[:, None] * head_stride + dim[None, :], is_real, 0.0
    )
    peak = tl.full([ROWS], -float("inf"), tl.float32)
    total, found = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    end = start + tl.minimum(first + QUERIES, count)
    for begin in range(0, end, KEYS):
        token = begin + tl.arange(0, KEYS)
        block = tl.load(blocks + sequence * table_width + token // BLOCK, token < end, 0)
        place = (block * KV_HEADS + kv_head) * BLOCK + token % BLOCK
        at, is_there = place[:, None] * DIM + dim[None, :], (token < end)[:, None] & (dim < DIM)[None, :]
        key_KD = tl.load(keys + at, is_there, 0.0)
        scores = tl.dot(asked_RD, tl.trans(key_KD), input_precision=PRECISION) * scale
        # A row without a query sees the first token, too: so each has a finite peak.
        scores = tl.where(token[None, :] <= (start + asked)[:, None], scores, -float("inf"))
        greatest = tl.maximum(peak, tl.max(scores, 1))
        weights, kept = tl.exp2(scores - greatest[:, None]), tl.exp2(peak - greatest)
        total = total * kept + tl.sum(weights, 1)
        value_KD = tl.load(values + at, is_there, 0.0)
        found = found * kept[:, None] + tl.dot(weights.to(value_KD.dtype), value_KD, input_precision=PRECISION)
        peak = greatest
    at = ((offset + asked)[:, None] * KV_HEADS * GROUP + head[:, None]) * DIM + dim[None, :]
    tl.store(out + at, (found / total[:, None]).to(asked_RD.dtype), is_real)
