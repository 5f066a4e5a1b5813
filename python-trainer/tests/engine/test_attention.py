# SPDX-License-Identifier: Apache-2.0
"""Every way to attend gives what attention over the whole sequence gives, whatever else is in the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from hypothesis import given, settings
from hypothesis import strategies as st

from whetstone_engine.attention.paged import PagedAttention, Way
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.scheduler import Batch
from whetstone_engine.slots import SlotTable
from whetstone_models.config import ModelConfig, parse_config
from whetstone_models.init import preset_config
from whetstone_models.transformer import causal_attend

MAX_LEN, BLOCKS = 2048, 512
# The kernel is compiled for a GPU; on a CPU `test_kernel.py` has it interpreted.
WAYS: tuple[Way, ...] = ("gathered", "kernel") if DEVICE.type == "cuda" else ("gathered", "in place")


def shape(heads: int, kv_heads: int) -> ModelConfig:
    sizes = {"hidden_size": heads * 8, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    return parse_config(preset_config("tiny", num_hidden_layers=2, **sizes))


class Cache:
    """A cache in which sequences lie on scattered blocks, and the attention over each whole sequence."""

    def __init__(self, config: ModelConfig, lengths: list[int], way: Way) -> None:
        self.config = config
        self.attention = PagedAttention(config, BLOCKS, torch.float32, DEVICE, way)
        self.table = SlotTable(len(lengths), MAX_LEN)
        free = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(5)).tolist()
        generator = torch.Generator().manual_seed(6)
        self.whole: list[tuple[torch.Tensor, ...]] = []
        self.expected: list[torch.Tensor] = []
        for slot, length in enumerate(lengths):
            self.table.set_blocks(slot, [free.pop() for _ in range(-(-length // BLOCK))])
            self.table.length[slot] = length
            heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
            drawn = (torch.randn(length, count, config.head_dim, generator=generator) for count in heads)
            tensors = tuple(one.to(DEVICE) for one in drawn)
            self.whole.append(tensors)
            self.expected.append(causal_attend(0, *(tensor.unsqueeze(0) for tensor in tensors))[0])

    def attend(self, parts: list[tuple[int, int, int]], layer: int = 0) -> tuple[list[torch.Tensor], list[int]]:
        """The results of a step of (slot, start, end), by part, and the slots in the order of the plan."""
        batch = Batch.of(np.array(parts, np.int64))
        plan = self.attention.plan = self.attention.make_plan(self.table, batch)
        of = {slot: (start, end) for slot, start, end in parts}
        owners = self._owners(plan.block_N)
        given = [
            torch.cat([self.whole[slot][index][of[slot][0] : of[slot][1]] for slot in owners]) for index in range(3)
        ]
        query = given[0] if plan.rows_S is None or layer == 0 else given[0][plan.rows_S]
        out = self.attention(layer, query, given[1], given[2])
        if layer == 1:
            return list(out), plan.slots.tolist()
        return list(out.split([of[slot][1] - of[slot][0] for slot in owners])), owners

    def _owners(self, block_N: torch.Tensor) -> list[int]:
        owner = {int(b): s for s in range(len(self.whole)) for b in self.table.blocks[s, : self.table.held[s]]}
        return list(dict.fromkeys(owner[block] for block in block_N.tolist()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_step_attends_as_over_whole_sequences(way: Way, heads: int, kv_heads: int, data: Any) -> None:
    """Prompts in chunks of any size, then single tokens, all in the same steps."""
    lengths = data.draw(st.lists(st.sampled_from([1, 5, 16, 17, 33, 100, 257, 500]), min_size=1, max_size=5))
    cache = Cache(shape(heads, kv_heads), lengths, way)
    done = [0] * len(lengths)
    while any(done[slot] < length for slot, length in enumerate(lengths)):
        parts: list[tuple[int, int, int]] = []
        for slot, length in enumerate(lengths):
            if done[slot] < length:
                end = min(length, done[slot] + data.draw(st.sampled_from([1, 16, 64, 160, 300])))
                parts.append((slot, done[slot], end))
        for layer in (0, 1):
            results, slots = cache.attend(parts, layer)
            for slot, got in zip(slots, results, strict=True):
                _, start, end = next(part for part in parts if part[0] == slot)
                wanted = cache.expected[slot][start:end] if layer == 0 else cache.expected[slot][end - 1]
                torch.testing.assert_close(got, wanted, atol=2e-5, rtol=1e-4)
            if layer == 1:
                assert sorted(slots) == [slot for slot, _, end in parts if end == lengths[slot]]
        for slot, _, end in parts:
            done[slot] = end


def test_what_a_sequence_gets_does_not_depend_on_its_neighbours() -> None:
    """Bit for bit: one query at the end of a context, alone and among others."""
    lengths = [700, 3, 16, 1500, 64]
    cache = Cache(shape(4, 2), lengths, WAYS[-1])
    for slot, length in enumerate(lengths):
        cache.attend([(slot, 0, length)])
    together = dict(zip(*reversed(cache.attend([(s, n - 1, n) for s, n in enumerate(lengths)])), strict=True))
    for slot, length in enumerate(lengths):
        (alone,), _ = cache.attend([(slot, length - 1, length)])
        assert torch.equal(alone, together[slot])
