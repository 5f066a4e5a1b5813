# SPDX-License-Identifier: Apache-2.0
"""Attention of consecutive tokens of one long sequence, without a mask. For a CPU.

What precedes the chunk is seen whole by each of its tokens, so it needs no mask; the chunk itself is causal. The two
results are joined by their log-sum-exps (FlashAttention, arXiv 2205.14135, section 3.1), which the public function
of PyTorch does not give.

Shapes: C tokens of the chunk, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whetstone_engine.attention.pool import Pool

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class Chunk:
    """Packed tokens from `first` to before `last`, after the `past` tokens of which `blocks_1W` hold at least all."""

    def __init__(self, first: int, last: int, past: int, blocks_1W: Tensor) -> None:
        self._first, self._last, self._past, self._blocks_1W = first, last, past, blocks_1W

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, keys: Pool, values: Pool) -> Tensor:
        """Queries, new keys and new values are [N, heads or kv_heads, D] → [C, heads, D]."""
        asked, own_key, own_value = (
            packed[self._first : self._last].transpose(0, 1).unsqueeze(0) for packed in (query, key, value)
        )
        out, weight = _flash(asked, own_key, own_value, 0.0, True)
        if self._past:  # the operator does not survive an empty context
            past_key, past_value = (pool.read(self._blocks_1W)[:, :, : self._past] for pool in (keys, values))
            before, weight_before = _flash(asked, past_key, past_value)
            out = torch.lerp(out, before, torch.sigmoid(weight_before - weight).unsqueeze(-1))
        return out[0].transpose(0, 1)
