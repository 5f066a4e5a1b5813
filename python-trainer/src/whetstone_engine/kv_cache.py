# SPDX-License-Identifier: Apache-2.0
"""Bookkeeping of the paged KV cache: who holds which block, and which blocks can be shared as a prefix.

A cached block is found by (node of its parent block, its 16 tokens); nodes are never reused, so a hit is exact, not a
matter of hash luck, and a block whose parent was evicted is simply never found again. The salt is the root's parent.
Blocks are registered when a prompt is admitted, before they are computed, and marked as filled when their step is
planned: within one step every layer writes all keys and values before it attends. So requests admitted together share;
whoever holds a block that is not filled yet waits for another holder to fill it, or fills it.
"""

from __future__ import annotations

BLOCK = 16
Key = tuple[int | str, bytes]


class OutOfBlocks(Exception):
    """The pool has no free block; the scheduler preempts or waits."""


class BlockPool:
    """Reference counts and the prefix cache over `count` blocks of 16 tokens."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._references = [0] * count
        self._key_of: list[Key | None] = [None] * count
        self._cached: dict[Key, tuple[int, int]] = {}  # key → (block, node)
        self._plain = list(range(count - 1, -1, -1))  # free and empty; the lowest is taken first
        self._evictable: dict[int, None] = {}  # free but cached, least recently used first
        self._filled = bytearray(count)
        self._next_node = 1

    @property
    def free(self) -> int:
        """Blocks that an allocation may take, counting cached ones that nobody holds."""
        return len(self._plain) + len(self._evictable)

    @property
    def usage(self) -> float:
        """Share of blocks that running sequences hold, 0..1."""
        return 1.0 - self.free / self.count

    def take(self, tokens: bytes, length: int, salt: str, token_size: int) -> tuple[list[int], int]:
        """Blocks for a sequence of `length` tokens and how many of its first tokens are in blocks that were found.

        `tokens` are the sequence's ids as raw bytes of `token_size` each. The last token is never taken from the
        cache: its logits are needed. Raises OutOfBlocks and changes nothing if the pool cannot hold the sequence.
        """
        chunks, blocks, parent = self._reusable(tokens, length, salt, token_size)
        cached, idle = len(blocks), sum(self._references[block] == 0 for block in blocks)
        needed = -(-length // BLOCK) - cached
        if needed > self.free - idle:
            raise OutOfBlocks
        for block in blocks:
            self._hold(block)
        blocks += [self.allocate() for _ in range(needed)]
        self._register(blocks, chunks, cached, parent)
        return blocks, cached * BLOCK

    def computed(self, blocks: list[int], start: int, length: int) -> int:
        """Where a sequence of `length` tokens goes on, whose tokens before `start` are computed: after filled blocks.

        Its last token is never among them, since its logits are needed.
        """
        if start % BLOCK == 0:
            while start + BLOCK < length and self._filled[blocks[start // BLOCK]]:
                start += BLOCK
        return start

    def fill(self, blocks: list[int]) -> None:
        """Marks blocks whose keys and values the next step computes."""
        for block in blocks:
            self._filled[block] = 1

    def spoil(self, blocks: list[int]) -> None:
        """Takes the mark back: their step has failed."""
        for block in blocks:
            self._filled[block] = 0

    def _reusable(
        self, tokens: bytes, length: int, salt: str, token_size: int
    ) -> tuple[list[bytes], list[int], int | str]:
        """The tokens by full block, the cached blocks they begin with, and the key that the next block would have."""
        stride, full = BLOCK * token_size, length // BLOCK
        chunks = [tokens[i * stride : (i + 1) * stride] for i in range(full)]
        blocks: list[int] = []
        parent: int | str = salt
        for chunk in chunks[: (length - 1) // BLOCK]:
            hit = self._cached.get((parent, chunk))
            if hit is None:
                break
            blocks.append(hit[0])
            parent = hit[1]
        return chunks, blocks, parent

    def allocate(self) -> int:
        """One empty block, evicting the least recently used cached one if need be. Raises OutOfBlocks."""
        if self._plain:
            block = self._plain.pop()
        elif self._evictable:
            block = next(iter(self._evictable))
            del self._evictable[block]
            self._forget(block)
        else:
            raise OutOfBlocks
        self._references[block], self._filled[block] = 1, 0
        return block

    def register_outputs(self, blocks: list[int], tokens: bytes, computed: int, salt: str, token_size: int) -> None:
        """Caches the full blocks of `computed` tokens, so that a next turn finds the answer it continues."""
        stride, full = BLOCK * token_size, computed // BLOCK
        chunks = [tokens[i * stride : (i + 1) * stride] for i in range(full)]
        self.fill(blocks[:full])
        parent: int | str = salt
        for index, chunk in enumerate(chunks):
            hit = self._cached.get((parent, chunk))
            if hit is None:
                # A block that already stands under another key means its chain was broken: leave it alone.
                if any(self._key_of[block] is not None for block in blocks[index:full]):
                    return
                self._register(blocks, chunks, index, parent)
                return
            parent = hit[1]

    def release(self, blocks: list[int]) -> None:
        """Gives up one reference to each. The tail is freed first: it is the least likely to be shared again."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                if self._key_of[block] is None:
                    self._plain.append(block)
                else:
                    self._evictable[block] = None

    def reset_cache(self) -> None:
        """Forgets every cached prefix. Blocks in use stay with their holders but are never shared again."""
        self._plain.extend(self._evictable)
        self._evictable.clear()
        self._cached.clear()
        self._key_of = [None] * self.count

    def _register(self, blocks: list[int], chunks: list[bytes], start: int, parent: int | str) -> None:
        for index in range(start, len(chunks)):
            key = (parent, chunks[index])
            hit = self._cached.get(key)
            if hit is None:
                hit = (blocks[index], self._next_node)
                self._next_node += 1
                self._cached[key] = hit
                self._key_of[blocks[index]] = key
            parent = hit[1]

    def _hold(self, block: int) -> None:
        if self._references[block] == 0:
            del self._evictable[block]
        self._references[block] += 1

    def _forget(self, block: int) -> None:
        key = self._key_of[block]
        if key is not None:
            del self._cached[key]
            self._key_of[block] = None
