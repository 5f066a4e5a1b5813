# SPDX-License-Identifier: Apache-2.0
"""Where the keys or the values of one layer lie: in blocks of 16 tokens.

Shapes: N tokens, W blocks, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whetstone_engine.kv_cache import BLOCK


class Pool:
    """[blocks, kv_heads, 16, D], or [.., D, 16] if `transposed`. Zeros: lazily backed by memory on a CPU."""

    def __init__(
        self, blocks: int, kv_heads: int, dim: int, transposed: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._transposed = transposed
        size = (dim, BLOCK) if transposed else (BLOCK, dim)
        self.data = torch.zeros((blocks, kv_heads, *size), dtype=dtype, device=device)

    def write(self, block_N: Tensor, place_N: Tensor, new: Tensor) -> None:
        """Stores `new` [N, kv_heads, D], each token at its place in its block."""
        if self._transposed:
            self.data[block_N, :, :, place_N] = new
        else:
            self.data[block_N, :, place_N] = new

    def read(self, blocks_BW: Tensor) -> Tensor:
        """A copy of these blocks of B sequences, [B, kv_heads, 16 · W, D]."""
        found = self.data.index_select(0, blocks_BW.flatten()).unflatten(0, blocks_BW.shape)
        if self._transposed:
            found = found.transpose(-1, -2)
        return found.transpose(1, 2).flatten(2, 3).contiguous()  # of one block, `flatten` makes a view
