# SPDX-License-Identifier: Apache-2.0
"""Attention within the trees of a flat pass: exact, and without a padded position.

The pass is a row of blocks. Short trees of equal length are one block with a mask each; long sequences of equal length
are one causal block. A long tree is a block of its own: its prompt is computed once, causally, then its branches attend
to the prompt and, some at a time, to themselves. So memory grows with prompt plus branches, never with their square.
In bfloat16 on a GPU all of it is `flash_trees`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whetstone_models.transformer import causal_attend, for_products
from whetstone_trainer.backends.local import flash_trees
from whetstone_trainer.backends.local.branch_attention import attend_branches
from whetstone_trainer.batch.packing import Branch, Tree

# Longest tree that is attended as a whole, by a mask of T x T.
MASKED_TOKENS = 256
# Of a long tree's branches, about so many tokens are attended together.
BRANCH_TOKENS = 128


class TreeAttention:
    """An `Attend` of packed tokens [T]. The last layer is asked for the tokens `asked_S` only."""

    def __init__(self, trees: Sequence[Tree], asked_S: Tensor, last_layer: int) -> None:
        self._trees, self._asked_S, self._last_layer = trees, asked_S, last_layer

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if layer != self._last_layer:
            return self._attend(query, key, value)
        # What is not asked for gets a query of zeros and is left out again: projections and MLP cost much more.
        whole = query.new_zeros(len(key), *query.shape[1:]).index_copy(0, self._asked_S, query)
        return self._attend(whole, key, value)[self._asked_S]

    def _attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.is_cuda:
            query, key, value = for_products(query), for_products(key), for_products(value)
        if flash_trees.fits(query):
            return self._flash(query, key, value)
        sizes = [block.tokens for block in self._blocks]
        # Tokens after the trees only round the size of the pass: they attend to nothing.
        rest = len(query) - sum(sizes)
        *parts, (unread, _, _) = zip(*(one.split([*sizes, rest]) for one in (query, key, value)), strict=True)
        return torch.cat([*(block(*part) for block, part in zip(self._blocks, parts, strict=True)), unread])

    @cached_property
    def _flash(self) -> flash_trees.FlashTrees:
        return flash_trees.FlashTrees(self._trees, self._asked_S.device)

    @cached_property
    def _blocks(self) -> list[_Alike | _LongTree]:
        return [_block(list(alike), self._asked_S.device) for _, alike in groupby(self._trees, _shape)]


@dataclass(frozen=True)
class _Alike:
    """Trees of one length; without a mask each is a plain causal sequence."""

    count: int
    tokens: int
    allowed_BTT: Tensor | None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (part.unflatten(0, (self.count, -1)) for part in (query, key, value))
        if self.allowed_BTT is None:
            return causal_attend(0, query, key, value).flatten(0, 1)
        return _masked(query, key, value, self.allowed_BTT.unsqueeze(1)).flatten(0, 1)


@dataclass(frozen=True)
class _LongTree:
    """A prompt, then its branches in parts."""

    prompt: int
    # Of each part: which of its own tokens each of them attends to.
    allowed: list[Tensor]

    @property
    def tokens(self) -> int:
        return self.prompt + sum(map(len, self.allowed))

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        sizes = [self.prompt, self.tokens - self.prompt]
        (of_prompt, query), (prompt_key, key), (prompt_value, value) = (one.split(sizes) for one in (query, key, value))
        found = causal_attend(0, *(one.unsqueeze(0) for one in (of_prompt, prompt_key, prompt_value))).squeeze(0)
        if not self.allowed:
            return found
        attend = self._joined if query.device.type == "cpu" and query.dtype == torch.float32 else self._masked
        return torch.cat([found, attend(query, prompt_key, prompt_value, key, value)])

    def _joined(self, query: Tensor, prompt_key: Tensor, prompt_value: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend_branches(query, prompt_key, prompt_value, key, value, self._masks)

    @cached_property
    def _masks(self) -> list[Tensor]:
        return [torch.zeros(one.shape).masked_fill_(~one, -torch.inf) for one in self.allowed]

    def _masked(self, query: Tensor, prompt_key: Tensor, prompt_value: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = zip(*(one.split([len(one) for one in self.allowed]) for one in (query, key, value)), strict=True)
        found = []
        for (own_query, own_key, own_value), allowed in zip(parts, self.allowed, strict=True):
            seen = torch.cat([prompt_key, own_key]), torch.cat([prompt_value, own_value])
            own_query, all_keys, all_values = (one.unsqueeze(0) for one in (own_query, *seen))
            whole = F.pad(allowed, (self.prompt, 0), value=True)
            found.append(_masked(own_query, all_keys, all_values, whole).squeeze(0))
        return torch.cat(found)


def _masked(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, enable_gqa=grouped).transpose(1, 2)


def _shape(tree: Tree) -> tuple[int, int]:
    """Trees next to each other with equal shapes are one block."""
    return tree.length, id(tree) if _is_long(tree) else 0


def _is_long(tree: Tree) -> bool:
    return len(tree.branches) > 1 and tree.length > MASKED_TOKENS


def _block(trees: list[Tree], device: torch.device) -> _Alike | _LongTree:
    length = trees[0].length
    if _is_long(trees[0]):
        return _long_tree(trees[0], device)
    if all(len(tree.branches) == 1 for tree in trees):
        return _Alike(len(trees), len(trees) * length, None)
    allowed_BTT = np.zeros((len(trees), length, length), dtype=bool)
    for tree, allowed_TT in zip(trees, allowed_BTT, strict=True):
        prompt = len(tree.prompt)
        allowed_TT[:prompt, :prompt] = np.tri(prompt, dtype=bool)
        allowed_TT[prompt:] = _branches_see(prompt, tree.branches)
    return _Alike(len(trees), len(trees) * length, torch.from_numpy(allowed_BTT).to(device))


def _long_tree(tree: Tree, device: torch.device) -> _LongTree:
    parts: list[list[Branch]] = []
    room = 0
    for branch in tree.branches:
        own = len(branch.own_ids)
        # A branch that only predicts the token after the prompt has none.
        if own > room and own:
            parts.append([])
            room = BRANCH_TOKENS
        if own:
            parts[-1].append(branch)
            room -= own
    return _LongTree(len(tree.prompt), [torch.from_numpy(_branches_see(0, part)).to(device) for part in parts])


def _branches_see(prompt: int, branches: Sequence[Branch]) -> np.ndarray:
    """[their own tokens, prompt + their own tokens]: the prompt, and each branch itself up to the token."""
    lengths = [len(branch.own_ids) for branch in branches]
    allowed = np.zeros((sum(lengths), prompt + sum(lengths)), dtype=bool)
    allowed[:, :prompt] = True
    start = 0
    for length in lengths:
        allowed[start : start + length, prompt + start : prompt + start + length] = np.tri(length, dtype=bool)
        start += length
    return allowed
