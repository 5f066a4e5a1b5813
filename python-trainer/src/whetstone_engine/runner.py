# SPDX-License-Identifier: Apache-2.0
"""Runs one step of the model: packed tokens in, one sampled token a sequence out. Owned by the step thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whetstone_engine.adapters.adapter import Adapter
from whetstone_engine.adapters.layers import Adapted, Rows
from whetstone_engine.attention import PagedAttention
from whetstone_engine.attention.paged import Plan
from whetstone_engine.attention.rows import on_device
from whetstone_engine.errors import StepAbandoned
from whetstone_engine.logits.change import change_logits
from whetstone_engine.sampler import Sampled, sample
from whetstone_engine.scheduler import Batch
from whetstone_engine.slots import SlotTable
from whetstone_models.transformer import Transformer

if TYPE_CHECKING:
    from whetstone_engine.decode_graphs import DecodeGraphs

# Positions whose logits are computed together when a prompt is scored.
SCORED_TOKENS = 512
WARM_UP_TOKENS = 64


class Runner:
    """A model with its KV cache. `swap` replaces the weights between two steps."""

    def __init__(self, model: Transformer, blocks: int) -> None:
        self.model, self.blocks = model, blocks
        weight = model.model.embed_tokens.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.attention = PagedAttention(model.config, blocks, self.dtype, self.device)
        self._graphs = self._new_graphs()
        self._adapted: Adapted | None = None
        # Asked before each layer's attention: True ends the step.
        self.is_abandoned: Callable[[], bool] = lambda: False

    def _new_graphs(self) -> DecodeGraphs | None:
        """None: steps are computed kernel by kernel."""
        if self.device.type != "cuda" or self.attention.way != "kernel":
            return None
        from whetstone_engine.decode_graphs import DecodeGraphs

        return DecodeGraphs(self.model, self.attention)

    def warm_up(self) -> None:
        """Computes a prompt and a token in the spare block of a GPU, where the first of its kind takes seconds.

        Otherwise a request waits for that, and `Pace` takes it for what a prompt costs.
        """
        if self.device.type != "cuda":
            return
        table = SlotTable(1, 2 * WARM_UP_TOKENS)
        table.blocks[:], table.temperature[:], table.wanted[:] = self.attention.spare_block, 1.0, 0
        for start, end in ((0, WARM_UP_TOKENS), (WARM_UP_TOKENS, WARM_UP_TOKENS + 1)):
            table.length[:] = end
            self.step(table, Batch.of(np.array([[0, start, end]], np.int64)))
        torch.cuda.synchronize(self.device)

    def swap(self, model: Transformer) -> bool:
        """Serves `model` from the next step on. True if its shape differs, which makes a fresh, empty KV cache."""
        changed = model.config != self.model.config
        self.model, self._adapted = model, None
        if changed:
            self.attention = PagedAttention(model.config, self.blocks, self.dtype, self.device)
        self._graphs = self._new_graphs()  # those before compute with the weights before
        return changed

    @torch.inference_mode()
    def step(self, table: SlotTable, batch: Batch) -> tuple[np.ndarray, Sampled | None]:
        """Computes the batch. Returns the slots that sampled, in the order of their tokens; None if there are none.

        Raises StepAbandoned, with some of the keys and values written.
        """
        by_adapter = table.slots_by_adapter(batch.slots)
        if self._graphs is not None and not by_adapter and _only_samples(table, batch):
            logits = self._graphs.logits(table, batch.slots, batch.ends)
            return batch.slots, self._sampled(logits, table, batch.slots)
        plan = self.attention.plan = self.attention.make_plan(table, batch)
        rows = [_rows_of(adapter, slots, plan, self.device) for adapter, slots in by_adapter.items()]
        model = self._model_with(rows)
        hidden = model.run(plan.tokens_N, plan.positions_N, self._attend, plan.rows_S)
        slots = plan.slots
        if not len(slots):
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # so that what the step took can be measured
            return slots, None
        return slots, self._sampled(self.model.logits(hidden).float(), table, slots)

    def _attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self.is_abandoned():
            raise StepAbandoned
        return self.attention(layer, query, key, value)

    def _model_with(self, rows: list[Rows]) -> Transformer:
        """The model itself, fused, where no row has an adapter."""
        if not rows:
            return self.model
        if self._adapted is None:
            self._adapted = Adapted(self.model)
        return self._adapted.with_rows(rows)

    def _sampled(self, logits: Tensor, table: SlotTable, slots: np.ndarray) -> Sampled:
        _forbid_early_stops(logits, table, slots)
        change_logits(logits, table.changed_rows(slots))
        return sample(logits, table.rows(slots), table.length[slots])

    @torch.inference_mode()
    def score(self, token_ids: list[int], adapter: Adapter | None = None) -> list[float]:
        """Log-probabilities of every token after the first, in nats, over the whole vocabulary at temperature 1.

        One pass over the sequence alone, without the cache: the same ids have the same numbers whatever else runs.
        """
        ids_T = torch.tensor(token_ids, device=self.device)
        model = self._model_with([] if adapter is None else [Rows(adapter)])
        hidden_TH = model.hidden(ids_T[None, :-1])[0]
        scored = list[float]()
        for hidden_PH, next_P in zip(hidden_TH.split(SCORED_TOKENS), ids_T[1:].split(SCORED_TOKENS), strict=True):
            table_PV = self.model.logits(hidden_PH).float().log_softmax(-1)
            scored += table_PV.gather(1, next_P[:, None])[:, 0].tolist()
        return scored


def _rows_of(adapter: Adapter, slots: list[int], plan: Plan, device: torch.device) -> Rows:
    of_N, of_S = (on_device(np.flatnonzero(np.isin(rows, slots)), device) for rows in (plan.slots_N, plan.slots))
    return Rows(adapter, of_N, of_S)


def _only_samples(table: SlotTable, batch: Batch) -> bool:
    """Whether each sequence computes its last token only."""
    return bool((batch.ends == table.length[batch.slots]).all() and (batch.ends - batch.starts == 1).all())


def _forbid_early_stops(logits_SV: Tensor, table: SlotTable, slots: np.ndarray) -> None:
    """min_tokens: the end tokens of a sequence cannot be sampled before it has that many."""
    early = np.flatnonzero(table.length[slots] < table.floor[slots])
    if not len(early):
        return
    stops = table.stops[slots[early]]
    rows = np.repeat(early, (stops >= 0).sum(1))
    logits_SV[torch.from_numpy(rows), torch.from_numpy(stops[stops >= 0])] = -torch.inf
