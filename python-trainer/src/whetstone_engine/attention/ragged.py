# SPDX-License-Identifier: Apache-2.0
"""Attention of sequences that ask with one token each, whose contexts have any lengths. For a CPU, in float32.

Both products are embedding bags, weighted sums of rows of a table. A query is the weights of a sum over the D rows of a
block of transposed keys, which gives the scores of its 16 tokens; these are the weights of a sum over rows of values.
So keys and values are read where they lie: nothing is gathered or padded to the longest context, and the result of a
row depends on that row alone, bit for bit.

Shapes: R = heads · sequences (head first), T = blocks of all contexts, D head size.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whetstone_engine.attention.pool import Pool
from whetstone_engine.attention.rows import Ints, spread
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.slots import SlotTable
from whetstone_models.config import ModelConfig


class Ragged:
    """Sequences in `slots`, of which the first `lengths` tokens are seen; their queries are rows from `first` on."""

    def __init__(self, table: SlotTable, slots: Ints, lengths: Ints, first: int, config: ModelConfig) -> None:
        heads, dim = config.num_heads, config.head_dim
        self._first, self._last, self._heads, self._scale = first, first + len(slots), heads, dim**-0.5
        held = -(-lengths // BLOCK)
        blocks_T = table.blocks[spread(slots, np.zeros_like(held), held)]
        kv_head_H1 = (np.arange(heads) // (heads // config.num_kv_heads))[:, None]
        tiles_HT1 = (blocks_T * config.num_kv_heads + kv_head_H1)[:, :, None]
        self._key_rows = torch.from_numpy((tiles_HT1 * dim + np.arange(dim)).ravel())
        self._key_offsets = torch.arange(0, len(self._key_rows) + 1, dim)
        self._asking = torch.from_numpy(np.repeat(np.arange(heads * len(slots)), np.tile(held, heads)))
        self._value_rows = torch.from_numpy((tiles_HT1 * BLOCK + np.arange(BLOCK)).ravel())
        self._widths_R = np.tile(held * BLOCK, heads)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._widths_R)))
        self._begins_R, self._value_offsets = offsets[:-1], torch.from_numpy(offsets)
        # The last block of a sequence may have places without a token.
        begin, place = spread(self._begins_R, np.tile(lengths, heads), self._widths_R)
        self._empty = begin + place

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, keys: Pool, values: Pool) -> Tensor:
        """Queries [N, heads, D] → [sequences, heads, D]."""
        dim = query.shape[-1]
        asked_RD = (query[self._first : self._last] * self._scale).transpose(0, 1).reshape(-1, dim)
        weights = asked_RD.index_select(0, self._asking).view(-1)
        scores = _bags(keys.data.view(-1, BLOCK), self._key_rows, self._key_offsets, weights).view(-1)
        totals_R = self._exponentiate(scores.numpy())
        sums_RD = _bags(values.data.view(-1, dim), self._value_rows, self._value_offsets, scores)
        sums_RD /= torch.from_numpy(totals_R).unsqueeze(-1)
        return sums_RD.unflatten(0, (self._heads, -1)).transpose(0, 1)

    def _exponentiate(self, scores: np.ndarray) -> np.ndarray:
        """Turns scores into weights relative to each row's greatest, in place; returns the sum of each row [R]."""
        scores[self._empty] = -np.inf
        scores -= np.repeat(np.maximum.reduceat(scores, self._begins_R), self._widths_R)
        np.exp(scores, out=scores)
        return np.add.reduceat(scores, self._begins_R)


def _bags(table: Tensor, rows: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of the table's rows: bag i has those from offsets[i] to before offsets[i + 1]."""
    return torch.embedding_bag(table, rows, offsets, False, 0, False, weights, include_last_offset=True)[0]
