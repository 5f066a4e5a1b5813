# SPDX-License-Identifier: Apache-2.0
"""Per-sequence state as arrays, one row a slot, so that a step touches all sequences with a few numpy calls.

Shapes: C slots (max_num_seqs), L the longest sequence in tokens, W block-table width. np.zeros is lazily backed by
memory, so a long L costs only what is used.
"""

from __future__ import annotations

import numpy as np

from whetstone_engine.adapters.adapter import Adapter
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.logits.change import RowChanges, Tokens
from whetstone_engine.sampler import RowParams
from whetstone_engine.sequence import Sequence

MAX_STOPS = 16  # stop ids a request may name, the model's own end tokens included


class SlotTable:
    """Tokens, block tables and sampling parameters of admitted sequences."""

    def __init__(self, capacity: int, max_len: int) -> None:
        self.tokens = np.zeros((capacity, max_len + 1), np.int64)
        self.logprobs = np.zeros((capacity, max_len + 1), np.float32)
        self.ranks = np.zeros((capacity, max_len + 1), np.int32)
        self.blocks = np.zeros((capacity, -(-max_len // BLOCK) + 1), np.int64)
        self.held = np.zeros(capacity, np.int64)  # blocks held
        self.prompt = np.zeros(capacity, np.int64)  # prompt tokens
        self.length = np.zeros(capacity, np.int64)  # prompt and sampled tokens
        self.computed = np.zeros(capacity, np.int64)  # first tokens whose keys and values are in the cache
        self.limit = np.zeros(capacity, np.int64)  # length at which the sequence ends
        self.floor = np.zeros(capacity, np.int64)  # length before which it may not stop (min_tokens)
        self.stops = np.full((capacity, MAX_STOPS), -1, np.int64)
        self.temperature = np.zeros(capacity, np.float32)
        self.top_p = np.zeros(capacity, np.float32)
        self.top_k = np.zeros(capacity, np.int64)
        self.min_p = np.zeros(capacity, np.float32)
        self.seed = np.zeros(capacity, np.uint64)
        self.wanted = np.zeros(capacity, np.int64)  # logprobs wanted, -1 for none
        self.changes = dict[int, RowChanges]()  # of the slots whose sequence asks for any
        self.adapters = dict[int, Adapter]()  # of the slots whose sequence has one
        self.free = list(range(capacity - 1, -1, -1))

    def open(self, sequence: Sequence, max_len: int, eos: tuple[int, ...]) -> None:
        """Gives the sequence a row. The caller checked that one is free."""
        slot, params, prompt = self.free.pop(), sequence.params, sequence.prompt
        sequence.slot = slot
        self.tokens[slot, : len(prompt)] = prompt
        self.prompt[slot] = self.length[slot] = len(prompt)
        self.limit[slot] = min(len(prompt) + params.max_tokens, max_len)
        self.floor[slot] = len(prompt) + params.min_tokens
        stops = params.stop_token_ids if params.ignore_eos else (*eos, *params.stop_token_ids)
        self.stops[slot] = -1
        self.stops[slot, : len(stops)] = stops
        self.temperature[slot], self.top_p[slot] = params.temperature, params.top_p
        self.top_k[slot], self.min_p[slot] = params.top_k, params.min_p
        self.seed[slot] = params.seed
        self.wanted[slot] = -1 if params.logprobs is None else params.logprobs
        if sequence.changes is not None:
            self.changes[slot] = sequence.changes
        if sequence.adapter is not None:
            self.adapters[slot] = sequence.adapter

    def close(self, sequence: Sequence) -> None:
        """Takes the row back."""
        self.changes.pop(sequence.slot, None)
        self.adapters.pop(sequence.slot, None)
        self.free.append(sequence.slot)
        sequence.slot = -1

    def set_blocks(self, slot: int, blocks: list[int]) -> None:
        """Writes a sequence's whole block table."""
        self.blocks[slot, : len(blocks)] = blocks
        self.held[slot] = len(blocks)

    def token_bytes(self, slot: int) -> bytes:
        """All tokens of a sequence as raw bytes: the keys of the prefix cache."""
        return self.tokens[slot, : self.length[slot]].tobytes()

    def changed_rows(self, slots: np.ndarray) -> dict[int, tuple[RowChanges, Tokens]]:
        """By their place in `slots`, those whose logits are to be changed."""
        if not self.changes:
            return {}
        asking = [(row, slot) for row, slot in enumerate(slots.tolist()) if slot in self.changes]
        return {row: (self.changes[slot], self._tokens_of(slot)) for row, slot in asking}

    def slots_by_adapter(self, slots: np.ndarray) -> dict[Adapter, list[int]]:
        """Of the given slots, those whose sequence has an adapter."""
        found = dict[Adapter, list[int]]()
        for slot in slots.tolist() if self.adapters else ():
            if (adapter := self.adapters.get(slot)) is not None:
                found.setdefault(adapter, []).append(slot)
        return found

    def _tokens_of(self, slot: int) -> Tokens:
        prompt, length = self.prompt[slot], self.length[slot]
        return Tokens(self.tokens[slot, :prompt], self.tokens[slot, prompt:length])

    def rows(self, slots: np.ndarray) -> RowParams:
        """Sampling parameters of the given slots."""
        filters = (self.temperature[slots], self.top_p[slots], self.top_k[slots], self.min_p[slots])
        return RowParams(*filters, self.seed[slots], self.wanted[slots])
