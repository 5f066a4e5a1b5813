# SPDX-License-Identifier: Apache-2.0
"""Attention of sequences of similar size together, padded, with a mask: for any device and type.

Their keys and values are gathered for each layer. The mask is as large as the tokens of the step times the context,
never the context squared, since long prompts come in chunks.

Shapes: B sequences, Q queries each (padded), K context each (padded to whole blocks), D head size.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from whetstone_engine.attention.pool import Pool
from whetstone_engine.attention.rows import Ints, on_device
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.slots import SlotTable


class Padded:
    """Sequences in `slots` whose tokens from `starts` to before `ends` ask; their queries are rows from `first` on."""

    def __init__(
        self,
        table: SlotTable,
        slots: Ints,
        starts: Ints,
        ends: Ints,
        first: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._batch, self._width = len(slots), -(-int(ends.max()) // BLOCK) * BLOCK
        counts = ends - starts
        self._first, self._last = first, first + int(counts.sum())
        self._single = bool((counts == 1).all())
        # Padding repeats the last real query.
        query_BQ = np.minimum(np.arange(counts.max()), counts[:, None] - 1)
        seen_BQK = np.arange(self._width) <= (starts[:, None] + query_BQ)[:, :, None]
        self._mask = _mask(seen_BQK[:, None], dtype, device)
        self._blocks_BW = on_device(table.blocks[slots, : self._width // BLOCK], device)
        if not self._single:
            offsets = first + np.cumsum(counts) - counts
            self._queries_BQ = on_device((offsets[:, None] + query_BQ).ravel(), device)
            self._real = on_device(np.flatnonzero(np.arange(counts.max()) < counts[:, None]), device)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, keys: Pool, values: Pool) -> Tensor:
        """Queries [N, heads, D] → [tokens of these sequences, heads, D]."""
        heads, dim = query.shape[1], query.shape[2]
        key, value = keys.read(self._blocks_BW), values.read(self._blocks_BW)
        if self._single:
            # The heads that share a key head are laid out as that head's queries.
            shared = query[self._first : self._last].view(self._batch, key.shape[1], heads // key.shape[1], dim)
            return F.scaled_dot_product_attention(shared, key, value, self._mask).reshape(self._batch, heads, dim)
        padded = query.index_select(0, self._queries_BQ).unflatten(0, (self._batch, -1)).transpose(1, 2)
        out = F.scaled_dot_product_attention(padded, key, value, self._mask, enable_gqa=heads != key.shape[1])
        return out.transpose(1, 2).flatten(0, 1).index_select(0, self._real)


def _mask(seen: NDArray[np.bool_], dtype: torch.dtype, device: torch.device) -> Tensor:
    """What is added to the scores."""
    hidden = torch.from_numpy(~seen).to(device)
    return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
