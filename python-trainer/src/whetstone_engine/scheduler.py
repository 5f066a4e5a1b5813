# SPDX-License-Identifier: Apache-2.0
"""Decides which sequences take part in a step, and when each is finished. No torch, no clock, no I/O.

Invariants: FIFO admission; a running sequence always holds blocks for all its tokens; while paused nothing is
scheduled (I7); the waiting queue is bounded by the caller (`StepLoop.submit`), who sees it from the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whetstone_engine.kv_cache import BLOCK, BlockPool, OutOfBlocks
from whetstone_engine.metrics import Counters
from whetstone_engine.sampler import Sampled
from whetstone_engine.sequence import Output, Sequence
from whetstone_engine.slots import SlotTable

Event = tuple[Sequence, Output]
_TOKEN_SIZE = 8  # bytes of a token in SlotTable.tokens


@dataclass(slots=True)
class Batch:
    """Sequences of one step: their slots and how many of their tokens are already in the cache."""

    slots: NDArray[np.int64]
    starts: NDArray[np.int64]


class Scheduler:
    """Waiting and running sequences over one slot table and one block pool."""

    def __init__(self, table: SlotTable, pool: BlockPool, max_len: int, eos: tuple[int, ...], budget: int) -> None:
        self.table, self.pool, self.max_len, self.eos = table, pool, max_len, eos
        self.budget = budget  # most prompt tokens computed in one step, unless a single prompt is longer
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.events: list[Event] = []
        self.counters = Counters()
        self.label = "default"
        self.paused = self.draining = False
        self._owner: list[Sequence | None] = [None] * len(table.length)
        self._streams = 0
        self._slots: NDArray[np.int64] | None = None

    @property
    def runnable(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.running and (not self.paused or self.draining)) or bool(self.waiting and not self.paused)

    def schedule(self) -> Batch | None:
        """The next step's sequences: all running ones, then as many waiting ones as fit."""
        self._grow()
        decoding = self._running_slots()
        admitted = [] if self.paused else self._admit()
        if not admitted:
            return Batch(decoding, self.table.length[decoding] - 1) if len(decoding) else None
        fresh = np.array([sequence.slot for sequence, _ in admitted], np.int64)
        cached = np.array([start for _, start in admitted], np.int64)
        return Batch(np.concatenate((decoding, fresh)), np.concatenate((self.table.length[decoding] - 1, cached)))

    def commit(self, slots: NDArray[np.int64], sampled: Sampled) -> None:
        """Appends one token to each slot and finishes what has ended."""
        table, tokens = self.table, sampled.token_ids
        positions = table.length[slots]
        table.tokens[slots, positions] = tokens
        table.logprobs[slots, positions] = sampled.logprobs
        table.ranks[slots, positions] = sampled.ranks
        table.length[slots] = positions + 1
        stopped = (table.stops[slots] == tokens[:, None]).any(1)
        ended = stopped | (positions + 1 >= table.limit[slots])
        for row, alternatives in sampled.alternatives.items():
            self._at(int(slots[row])).alternatives.append(alternatives)
        for row, ids in sampled.supports.items():
            self._at(int(slots[row])).supports.append(ids.tolist())
        self.counters.generation_tokens += len(slots)
        for row in np.flatnonzero(ended).tolist():
            self._finish(self._at(int(slots[row])), "stop" if stopped[row] else "length")
        if ended.any():
            self._drop_finished()
        if self._streams:
            self.events += [(s, self._output(s)) for s in self.running if s.stream and s.slot >= 0]

    def abort(self, chosen: Iterable[Sequence]) -> int:
        """Ends these sequences with their partial tokens. Returns how many were still alive."""
        alive = [sequence for sequence in chosen if not sequence.done]
        gone = set(map(id, alive))
        for sequence in alive:
            self._finish(sequence, "abort")
        if alive:
            self.waiting = deque(s for s in self.waiting if id(s) not in gone)
            self._drop_finished()
        return len(alive)

    def fail(self, reason: str) -> None:
        """Ends every running sequence with an error: their cache content is not to be trusted."""
        for sequence in self.running:
            self._finish(sequence, "error", error=reason)
        self._drop_finished()
        self.pool.reset_cache()

    def fail_one(self, slot: int, reason: str, computed: bool) -> None:
        """Ends one running sequence with an error. `computed`: its whole prompt is in the cache, to be shared."""
        self._finish(self._at(slot), "error", error=reason)
        self._drop_finished()
        if not computed:
            self.pool.reset_cache()

    def blocks_of(self, slot: int) -> list[int]:
        """The blocks that the sequence in a slot holds."""
        return self._at(slot).blocks

    def preempt_all(self) -> None:
        """Frees all blocks; sequences keep their tokens and are computed anew, first in the queue."""
        for sequence in reversed(self.running):
            self._preempt(sequence)

    def set_label(self, label: str) -> None:
        """Tokens sampled from now on carry this label."""
        self.label = label
        for sequence in self.running:
            sequence.mark(label, self._produced(sequence))

    def _admit(self) -> list[tuple[Sequence, int]]:
        admitted: list[tuple[Sequence, int]] = []
        budget = self.budget
        while self.waiting and (self.waiting[0].slot >= 0 or self.table.free):
            sequence = self.waiting[0]
            fresh = sequence.slot < 0
            if admitted and self._uncached(sequence, budget) > budget:
                break
            try:
                start = self._start(sequence)
            except Exception as error:
                self._reject(sequence, fresh, f"cannot be admitted: {type(error).__name__}")
                continue
            if start is None:
                break
            self.waiting.popleft()
            budget -= int(self.table.length[sequence.slot]) - start
            admitted.append((sequence, start))
            self._count_prompt(sequence, start, fresh)
        return admitted

    def _uncached(self, sequence: Sequence, budget: int) -> int:
        """Tokens that a step would compute for it: a prompt whose prefix is cached costs its rest alone."""
        if sequence.slot >= 0:
            tokens, length = self.table.token_bytes(sequence.slot), int(self.table.length[sequence.slot])
        elif len(sequence.prompt) > budget:
            tokens, length = np.array(sequence.prompt, np.int64).tobytes(), len(sequence.prompt)
        else:
            return len(sequence.prompt)
        return length - self.pool.cached_tokens(tokens, length, sequence.salt, _TOKEN_SIZE)

    def _reject(self, sequence: Sequence, fresh: bool, reason: str) -> None:
        """Ends a waiting sequence that could not be started, and no other."""
        self.waiting.popleft()
        if not fresh:
            self._finish(sequence, "error", error=reason)
            return
        if sequence.slot >= 0:
            self.table.close(sequence)
        self._finish(sequence, "error", error=reason)

    def _start(self, sequence: Sequence) -> int | None:
        """Gives the sequence a slot and blocks; returns its cached tokens, or None if the pool is full."""
        table, fresh = self.table, sequence.slot < 0
        if fresh:
            table.open(sequence, self.max_len, self.eos)
        slot = sequence.slot
        try:
            blocks, start = self.pool.take(table.token_bytes(slot), int(table.length[slot]), sequence.salt, _TOKEN_SIZE)
        except OutOfBlocks:
            if fresh:
                table.close(sequence)
            return None
        table.set_blocks(slot, blocks)
        sequence.blocks = blocks
        sequence.mark(self.label, self._produced(sequence))
        self.running.append(sequence)
        self._owner[slot], self._slots = sequence, None
        return start

    def _count_prompt(self, sequence: Sequence, start: int, fresh: bool) -> None:
        if fresh:
            sequence.cached_tokens = start
            self._streams += sequence.stream
            self.counters.prompt_tokens += len(sequence.prompt)
        self.counters.cache_queries += int(self.table.length[sequence.slot])
        self.counters.cache_hits += start

    def _grow(self) -> None:
        """A block more for each running sequence whose next token needs it; the youngest make room if none is left."""
        slots = self._running_slots()
        short = slots[self.table.length[slots] > self.table.held[slots] * BLOCK]
        for slot in short.tolist():
            sequence = self._owner[slot]
            while sequence is not None and sequence in self.running:
                try:
                    block = self.pool.allocate()
                except OutOfBlocks:
                    self._preempt(self.running[-1])
                    continue
                sequence.blocks.append(block)
                self.table.blocks[slot, self.table.held[slot]] = block
                self.table.held[slot] += 1
                break

    def _preempt(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        self.running.remove(sequence)
        self.waiting.appendleft(sequence)
        self._slots = None
        self.counters.preemptions += 1

    def _finish(self, sequence: Sequence, reason: str, error: str | None = None) -> None:
        """Ends a sequence; the caller then calls `_drop_finished` once for all that ended."""
        output = self._output(sequence, reason)
        output.error = error
        self.events.append((sequence, output))
        sequence.done = True
        self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1
        if sequence.slot < 0:
            return
        slot = sequence.slot
        if sequence.blocks and error is None:
            # The newest token was never fed to the model, so it has no key and value yet.
            computed = int(self.table.length[slot]) - 1
            if computed // BLOCK > len(sequence.prompt) // BLOCK:
                self.pool.register_outputs(
                    sequence.blocks, self.table.token_bytes(slot), computed, sequence.salt, _TOKEN_SIZE
                )
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        self._streams -= sequence.stream
        self._owner[slot] = None
        self.table.close(sequence)

    def _drop_finished(self) -> None:
        self.running = [sequence for sequence in self.running if not sequence.done]
        self._slots = None

    def _output(self, sequence: Sequence, reason: str | None = None) -> Output:
        """Everything not yet sent: the whole answer, or a stream's next chunk."""
        slot, params = sequence.slot, sequence.params
        if slot < 0:
            return Output([], [], [], [], reason, None, [])
        table, total = self.table, self._produced(sequence)
        begin = len(sequence.prompt) + sequence.sent
        place = (slot, slice(begin, len(sequence.prompt) + total))
        ids = table.tokens[place].tolist()
        output = Output(ids, [], [], [], reason)
        if params.logprobs is not None:
            output.logprobs, output.ranks = table.logprobs[place].tolist(), table.ranks[place].tolist()
            output.alternatives = sequence.alternatives[sequence.sent :]
            output.supports = sequence.supports[sequence.sent :]
        if reason is not None or sequence.tells_versions:
            output.versions = sequence.versions(total)
        if reason is not None:
            output.stop_reason = self._stop_reason(sequence, ids) if reason == "stop" else None
        sequence.sent = total
        return output

    def _stop_reason(self, sequence: Sequence, ids: list[int]) -> int | None:
        """The stop id that was hit; None for the model's own end token, as in vLLM."""
        is_eos = ids[-1] in self.eos and not sequence.params.ignore_eos
        return None if is_eos else ids[-1]

    def _produced(self, sequence: Sequence) -> int:
        return int(self.table.length[sequence.slot]) - len(sequence.prompt)

    def _running_slots(self) -> NDArray[np.int64]:
        if self._slots is None:
            self._slots = np.array([sequence.slot for sequence in self.running], np.int64)
        return self._slots

    def _at(self, slot: int) -> Sequence:
        sequence = self._owner[slot]
        assert sequence is not None
        return sequence
