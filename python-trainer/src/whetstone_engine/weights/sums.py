# SPDX-License-Identifier: Apache-2.0
"""Sums of a tensor's blocks, by which it is seen that memory is still what it was when its digests were checked.

A sum is that of the block's 64-bit words, modulo 2^64. It finds any word that has become another, and takes a small
part of the time that SHA-256 takes; it proves nothing of bytes that came from elsewhere.
"""

from __future__ import annotations

import numpy as np

_WORD = 8


def block_sum(block: memoryview) -> int:
    """Of one block; what is left beyond its last whole word counts as one more."""
    words = len(block) // _WORD
    total = int(np.add.reduce(np.frombuffer(block, np.uint64, words))) if words else 0
    return (total + int.from_bytes(block[words * _WORD :], "little")) % (1 << 64)


def block_sums(view: memoryview, size: int) -> list[int]:
    """Of blocks of `size` bytes, the last one shorter."""
    return [block_sum(view[at : at + size]) for at in range(0, len(view), size)]


def copy_checked(source: memoryview, target: memoryview, size: int, sums: list[int]) -> bool:
    """Copies block by block, and sums each while it is near. False: one is not as it was, and `target` is not whole."""
    for index, at in enumerate(range(0, len(source), size)):
        block = target[at : at + size]
        np.copyto(np.frombuffer(block, np.uint8), np.frombuffer(source[at : at + size], np.uint8))
        if block_sum(block) != sums[index]:
            return False
    return True
