# SPDX-License-Identifier: Apache-2.0
"""The kernel for GPUs gives what attention over whole sequences gives. A CPU has it interpreted (`conftest.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from compute_device import DEVICE

pytest.importorskip("triton", reason="this build of PyTorch has no Triton")

from test_attention import BLOCKS, MAX_LEN, Cache, shape

from whetstone_engine.attention.paged import PagedAttention
from whetstone_engine.decode_graphs import DecodeStep
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.scheduler import Batch
from whetstone_engine.slots import SlotTable
from whetstone_models.folder import load_model


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (8, 1)])
def test_prompts_in_parts_and_single_tokens_attend_as_over_whole_sequences(heads: int, kv_heads: int) -> None:
    lengths = [1, 17, 100, 33]
    cache = Cache(shape(heads, kv_heads), lengths, "kernel")
    for parts in ([(1, 0, 17), (2, 0, 40)], [(0, 0, 1), (2, 40, 99), (3, 0, 32)], [(2, 99, 100), (3, 32, 33)]):
        for layer in (0, 1):
            results, slots = cache.attend(parts, layer)
            for slot, got in zip(slots, results, strict=True):
                _, start, end = next(part for part in parts if part[0] == slot)
                wanted = cache.expected[slot][start:end] if layer == 0 else cache.expected[slot][end - 1]
                assert float((got - wanted).abs().max()) < 2e-5


def test_what_a_sequence_gets_does_not_depend_on_its_neighbours() -> None:
    """Bit for bit."""
    lengths = [130, 3, 16]
    cache = Cache(shape(4, 2), lengths, "kernel")
    for slot, length in enumerate(lengths):
        cache.attend([(slot, 0, length)])
    together = dict(zip(*reversed(cache.attend([(s, n - 1, n) for s, n in enumerate(lengths)])), strict=True))
    for slot, length in enumerate(lengths):
        (alone,), _ = cache.attend([(slot, length - 1, length)])
        assert (alone == together[slot]).all()


@torch.inference_mode()
def test_a_step_of_tensors_that_stay_has_the_logits_of_the_whole_sequences(models: tuple[Path, Path]) -> None:
    """Two steps, the second of fewer sequences than the tensors have rows."""
    model = load_model(models[0], torch.float32, DEVICE.type).fuse()
    attention = PagedAttention(model.config, BLOCKS, torch.float32, DEVICE, "kernel")
    lengths = np.array([40, 16, 3])
    table, next_block = SlotTable(3, MAX_LEN), 0
    ids = [torch.randint(0, 255, (int(length) + 2,)) for length in lengths]
    for slot, length in enumerate(lengths):
        held = -(-(int(length) + 2) // BLOCK)
        table.set_blocks(slot, list(range(next_block, next_block + held)))
        next_block += held
        table.tokens[slot, : length + 2], table.length[slot] = ids[slot].numpy(), length
    prompts = Batch(np.arange(3), np.zeros(3, np.int64), lengths)
    plan = attention.plan = attention.make_plan(table, prompts)
    model.run(plan.tokens_N, plan.positions_N, attention)
    step = DecodeStep(model, attention, 4, 16)
    for slots, more in ((np.array([2, 0, 1]), 1), (np.array([1, 2]), 2)):
        step.fill(table, slots, lengths[slots] + more)
        for slot, logits_V in zip(slots, step.compute(), strict=False):
            whole = model(ids[slot][None, : lengths[slot] + more].to(DEVICE))[0, -1]
            torch.testing.assert_close(logits_V, whole, atol=2e-4, rtol=1e-4)
