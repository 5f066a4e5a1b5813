# SPDX-License-Identifier: Apache-2.0
"""Decides which sequences take part in a step, and when each is finished. No torch, no clock, no I/O.

Invariants: FIFO admission; a running sequence always holds blocks for all its tokens; whoever samples takes part in
every step, whatever prompts there are; while paused nothing is scheduled (I7); the waiting queue is bounded by its
caller (`StepLoop.submit`), who sees it from the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whetstone_engine.kv_cache import BLOCK, BlockPool, OutOfBlocks
from whetstone_engine.metrics import Counters
from whetstone_engine.pace import Pace
from whetstone_engine.prompts import Prompts
from whetstone_engine.sampler import Sampled
from whetstone_engine.sequence import Output, Sequence
from whetstone_engine.slots import SlotTable

Event = tuple[Sequence, Output]
_TOKEN_SIZE = 8  # bytes of a token in SlotTable.tokens


@dataclass(slots=True)
class Batch:
    """Sequences of one step: their slots, and which of their tokens are computed, from `starts` to before `ends`.

    A token is sampled for those whose last token is among them. Work is in the units of `Pace`.
    """

    slots: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    prompt_work: float = 0.0
    sampling_work: float = 0.0

    @staticmethod
    def of(parts: NDArray[np.int64], prompt_work: float = 0.0, sampling_work: float = 0.0) -> Batch:
        """From a row (slot, start, end) for each sequence."""
        slots, starts, ends = np.ascontiguousarray(parts.T)
        return Batch(slots, starts, ends, prompt_work, sampling_work)


class Scheduler:
    """Waiting and running sequences over one slot table and one block pool."""

    def __init__(self, table: SlotTable, pool: BlockPool, max_len: int, eos: tuple[int, ...], pace: Pace) -> None:
        self.table, self.pool, self.max_len, self.eos, self.pace = table, pool, max_len, eos, pace
        self.prompts = Prompts(table, pool, pace)
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
        """The next step's sequences: all that are sampling, then parts of prompts."""
        self._grow()
        if not self.paused:
            self._admit()
        self.prompts.advance()
        slots, table, pace = self._running_slots(), self.table, self.pace
        sampling = slots[table.computed[slots] == table.length[slots] - 1]
        lengths = table.length[sampling]
        sampling_work = pace.sampling_work(len(sampling), int(lengths.sum()))
        portions = self.prompts.portions(pace.allowance(sampling_work)) if len(self.prompts) else []
        work = sum(pace.work(start, end) for _, start, end in portions)
        parts = np.column_stack((sampling, lengths - 1, lengths))
        if portions:
            parts = np.concatenate((parts, np.array(portions, np.int64)))
        return Batch.of(parts, work, sampling_work) if len(parts) else None

    def commit(self, batch: Batch, slots: NDArray[np.int64], sampled: Sampled | None) -> None:
        """Notes what a step computed. Appends one token to each of `slots` and finishes what has ended."""
        self.table.computed[batch.slots] = batch.ends
        if sampled is None:
            return
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

    def fail_one(self, slot: int, reason: str, spoilt: list[int]) -> None:
        """Ends one running sequence with an error. Blocks that it was to fill are never shared."""
        self.pool.spoil(spoilt)
        self._finish(self._at(slot), "error", error=reason)
        self._drop_finished()
        if spoilt:
            self.pool.reset_cache()

    def blocks_of(self, slot: int) -> list[int]:
        """The blocks that the sequence in a slot holds."""
        return self._at(slot).blocks

    def preempt_all(self) -> None:
        """Frees all blocks; sequences keep their tokens and are computed anew, first in the queue."""
        for sequence in reversed(self.running):
            self._preempt(sequence)

    def restart_prompts(self) -> None:
        """Begins prompts anew of which a part is computed, so that one version of the weights computes all of it."""
        for sequence in reversed(self.prompts.unfinished()):
            self._preempt(sequence)

    def set_label(self, label: str) -> None:
        """Tokens sampled from now on carry this label."""
        self.label = label
        for sequence in self.running:
            sequence.mark(label, self._produced(sequence))

    def _admit(self) -> None:
        """Gives slots and blocks to as many waiting sequences as they suffice for."""
        while self.waiting and (self.waiting[0].slot >= 0 or self.table.free):
            sequence = self.waiting[0]
            fresh = sequence.slot < 0
            try:
                cached = self._start(sequence)
            except Exception as error:
                self._reject(sequence, fresh, f"cannot be admitted: {type(error).__name__}")
                continue
            if cached is None:
                break
            self.waiting.popleft()
            self._count_prompt(sequence, cached, fresh)

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
            blocks, cached = self.pool.take(
                table.token_bytes(slot), int(table.length[slot]), sequence.salt, _TOKEN_SIZE
            )
        except OutOfBlocks:
            if fresh:
                table.close(sequence)
            return None
        table.set_blocks(slot, blocks)
        sequence.blocks = blocks
        sequence.mark(self.label, self._produced(sequence))
        self.running.append(sequence)
        self._owner[slot], self._slots = sequence, None
        self.prompts.add(sequence)
        return cached

    def _count_prompt(self, sequence: Sequence, cached: int, fresh: bool) -> None:
        if fresh:
            sequence.cached_tokens = cached
            self._streams += sequence.stream
            self.counters.prompt_tokens += len(sequence.prompt)
        self.counters.cache_queries += int(self.table.length[sequence.slot])
        self.counters.cache_hits += cached

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
        self.prompts.discard(sequence)
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
            computed = int(self.table.computed[slot])
            if computed // BLOCK > len(sequence.prompt) // BLOCK:
                self.pool.register_outputs(
                    sequence.blocks, self.table.token_bytes(slot), computed, sequence.salt, _TOKEN_SIZE
                )
        self.prompts.discard(sequence)
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
