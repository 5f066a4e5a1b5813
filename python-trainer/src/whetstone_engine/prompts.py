# SPDX-License-Identifier: Apache-2.0
"""Which part of which prompt a step computes. No torch, no clock, no I/O.

Prompts take turns: one that has got a part goes behind those that have got none, and those of a step share its
allowance, the shorter ones first. So a short prompt passes a long one, and neither waits for ever. Of several that
begin alike one computes what they share: whoever is next does, so it does not matter who ends on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from whetstone_engine.kv_cache import BLOCK, BlockPool
from whetstone_engine.pace import LEAST_TOKENS, Pace
from whetstone_engine.sequence import Sequence
from whetstone_engine.slots import SlotTable


class Portion(NamedTuple):
    """The tokens from `start` to before `end` of the sequence in a slot."""

    slot: int
    start: int
    end: int


class Prompts:
    """Running sequences of which more than the last token is not in the cache yet, in the order of their turns."""

    def __init__(self, table: SlotTable, pool: BlockPool, pace: Pace) -> None:
        self._table, self._pool, self._pace = table, pool, pace
        self._turns: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, sequence: Sequence) -> None:
        """A sequence that has got its slot and its blocks."""
        self._table.computed[sequence.slot] = 0
        self._turns.append(sequence)

    def discard(self, sequence: Sequence) -> None:
        """A sequence that has ended or lost its blocks; it may have been computed already."""
        if sequence in self._turns:
            self._turns.remove(sequence)

    def unfinished(self) -> list[Sequence]:
        """All of them."""
        return list(self._turns)

    def advance(self) -> None:
        """Skips what is in the cache by now. Whoever lacks only its last token is a prompt no longer."""
        length = self._table.length
        self._turns = [s for s in self._turns if self._start(s) < length[s.slot] - 1]

    def portions(self, allowance: float) -> list[Portion]:
        """Parts of about this much work together, at least one if there is a prompt; none precedes what it needs.

        Their blocks count as filled from now on.
        """
        portions: list[Portion] = []
        served: dict[int, int] = {}  # slot → end
        left, room = allowance, self._pace.most
        while left > 0 and room > 0:
            leaders = self._leaders(served, left)
            if not leaders:
                break
            for index, sequence in enumerate(leaders):
                portion = self._portion(sequence, left / (len(leaders) - index), room)
                portions.append(portion)
                served[portion.slot] = portion.end
                left -= self._pace.work(portion.start, portion.end)
                room -= portion.end - portion.start
                if left <= 0 or room <= 0:
                    break
        later = [s for s in self._turns if s.slot in served and served[s.slot] < self._table.length[s.slot]]
        self._turns = [s for s in self._turns if s.slot not in served] + later
        return portions

    def _leaders(self, served: dict[int, int], left: float) -> list[Sequence]:
        """Whose turn it is, and whose next block no earlier one computes; the shortest rest comes first."""
        leaders: list[tuple[int, Sequence]] = []
        claimed: set[int] = set()
        for sequence in self._turns:
            if sequence.slot in served:
                continue
            start, length = self._start(sequence), int(self._table.length[sequence.slot])
            block = sequence.blocks[start // BLOCK]
            if block in claimed:
                continue
            claimed.add(block)
            leaders.append((length - start, sequence))
            left -= self._pace.work(start, min(start + LEAST_TOKENS, length))
            if left <= 0:
                break
        return [sequence for _, sequence in sorted(leaders, key=lambda pair: pair[0])]

    def _portion(self, sequence: Sequence, work: float, room: int) -> Portion:
        """The next tokens of a sequence, ending with the sequence or with a block."""
        slot, start = sequence.slot, int(self._table.computed[sequence.slot])
        length = int(self._table.length[slot])
        wanted = start + min(max(self._pace.tokens(start, work), LEAST_TOKENS), max(room, BLOCK))
        end = length if wanted >= length else wanted // BLOCK * BLOCK
        self._pool.fill(sequence.blocks[start // BLOCK : end // BLOCK])
        return Portion(slot, start, end)

    def _start(self, sequence: Sequence) -> int:
        """The first token that is not in the cache."""
        slot, table = sequence.slot, self._table
        table.computed[slot] = self._pool.computed(sequence.blocks, int(table.computed[slot]), int(table.length[slot]))
        return int(table.computed[slot])
