# SPDX-License-Identifier: Apache-2.0
"""Steps in which every sequence only samples, as CUDA graphs: a GPU computes one without the interpreter.

A step of a small model is some hundred kernels of microseconds each, and starting one from Python takes longer. A graph
is recorded for a number of sequences and a width of their block tables, each a power of two or four; a step takes the
next larger one, whose rows in excess write to the spare block.

Shapes: B sequences, W blocks of a table, V vocabulary.
Source: CUDA programming guide, "CUDA Graphs"; PyTorch `torch.cuda.CUDAGraph`.
"""

from __future__ import annotations

import logging

import numpy as np
import torch
from torch import Tensor

from whetstone_engine.attention import PagedAttention, Plan
from whetstone_engine.attention.kernel import Kernel, Sequences
from whetstone_engine.attention.rows import Ints
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.slots import SlotTable
from whetstone_models.transformer import Transformer

# The narrowest block table that a graph is recorded for.
LEAST_WIDTH = 16
log = logging.getLogger("whetstone_engine")


class DecodeStep:
    """One step of B sequences from tensors that stay where they are."""

    def __init__(self, model: Transformer, attention: PagedAttention, count: int, width: int) -> None:
        self._model, self._attention, self._count = model, attention, count
        device = attention.device
        self._given = torch.zeros(count * (2 + width), dtype=torch.int64, device=device)
        self._on_host = torch.zeros(self._given.shape, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._tokens_B, self._positions_B, blocks = self._given.split([count, count, count * width])
        self._blocks_BW = blocks.view(count, width)
        rows_B = torch.arange(count, device=device)
        ones_B, zeros_B = torch.ones_like(rows_B), torch.zeros_like(rows_B)
        sequences = Sequences(self._blocks_BW, self._positions_B, ones_B, rows_B, rows_B, zeros_B)
        self._part = Kernel(sequences, 1)

    def fill(self, table: SlotTable, slots: Ints, ends: Ints) -> None:
        """Sets what is computed: sequences in `slots` of `ends` tokens each, at most B of them."""
        given, count, real = self._on_host.numpy(), self._count, len(slots)
        tokens_B, positions_B, blocks = given[:count], given[count : 2 * count], given[2 * count :]
        blocks_BW = blocks.reshape(count, -1)
        tokens_B[real:] = positions_B[real:] = 0
        blocks_BW[real:] = self._attention.spare_block
        tokens_B[:real], positions_B[:real] = table.tokens[slots, ends - 1], ends - 1
        width = min(blocks_BW.shape[1], table.blocks.shape[1])
        blocks_BW[:real, :width] = table.blocks[slots, :width]
        self._given.copy_(self._on_host, non_blocking=True)

    def compute(self) -> Tensor:
        """Logits [B, V], float32."""
        block_B = self._blocks_BW.gather(1, (self._positions_B // BLOCK).unsqueeze(1)).squeeze(1)
        place_B, parts = self._positions_B % BLOCK, [self._part]
        nobody = np.empty(0, np.int64)
        self._attention.plan = Plan(
            nobody, nobody, self._tokens_B, self._positions_B, block_B, place_B, [*parts], None, [*parts]
        )
        hidden_BH = self._model.run(self._tokens_B, self._positions_B, self._attention)
        return self._model.logits(hidden_BH).float()


class DecodeGraphs:
    """Graphs of one model's steps, each recorded when it is first needed."""

    def __init__(self, model: Transformer, attention: PagedAttention) -> None:
        self._model, self._attention = model, attention
        self._graphs: dict[tuple[int, int], tuple[DecodeStep, torch.cuda.CUDAGraph, Tensor]] = {}
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()

    def logits(self, table: SlotTable, slots: Ints, ends: Ints) -> Tensor:
        """[sequences, V], float32; they may be overwritten, and hold until the next call."""
        size = 1 << (len(slots) - 1).bit_length(), _width(-(-int(ends.max()) // BLOCK))
        step, graph, logits_BV = self._graphs.get(size) or self._recorded(*size)
        step.fill(table, slots, ends)
        graph.replay()
        return logits_BV[: len(slots)]

    def _recorded(self, count: int, width: int) -> tuple[DecodeStep, torch.cuda.CUDAGraph, Tensor]:
        step, graph = DecodeStep(self._model, self._attention, count, width), torch.cuda.CUDAGraph()
        # Nothing is cached, so that sequences of one token are computed, which write to the spare block.
        step.fill(_NO_TABLE, *(_NO_TABLE.length[:0],) * 2)
        # The host's copy is filled again at once.
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(self._stream):
            step.compute()  # kernels are compiled, and workspaces taken, before anything is recorded
            # Other threads load weights meanwhile.
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                logits_BV = step.compute()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        log.info("step_recorded", extra={"sequences": count, "blocks": width})
        self._graphs[count, width] = step, graph, logits_BV
        return self._graphs[count, width]


_NO_TABLE = SlotTable(1, 1)


def _width(blocks: int) -> int:
    width = LEAST_WIDTH
    while width < blocks:
        width *= 4
    return width
