# SPDX-License-Identifier: Apache-2.0
"""Packs sequences so that what they share is computed once.

Members of a group start from the same prompt, and short answers are often the same. Sequences with one prompt become a
tree: the prompt, then every distinct continuation as a branch that sees the prompt and itself but not its neighbours.
Each token is computed as if its sequence stood alone; rows with equal ids even share their branch.

Trees need a mask of T x T, so they stay short. What is longer is a chain of its own: causal attention, no mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from whetstone_trainer.batch.rows import Row

# Longest tree, in tokens. Beyond, a dense mask costs more than the shared prompt saves.
TREE_TOKENS = 256


@dataclass
class Branch:
    """Rows with the same ids, trained tokens and temperatures. `start`: where its own ids begin in the tree."""

    rows: list[Row]
    # Ids after the prompt. The last trained token is predicted, never fed.
    own_ids: np.ndarray
    start: int = 0

    @property
    def first(self) -> Row:
        return self.rows[0]

    def predictors(self) -> np.ndarray:
        """Index in the tree of the token before each trained one [K]: the prompt's last, then the branch's own."""
        prompt = self.first.positions[0]
        before = self.first.positions - 1
        return np.where(before < prompt, before, before - prompt + self.start)


@dataclass
class Tree:
    """A prompt and its branches, in the order they are fed."""

    prompt: np.ndarray
    branches: list[Branch] = field(default_factory=list)
    length: int = 0

    def fits(self, branch: Branch) -> bool:
        return self.length + len(branch.own_ids) <= TREE_TOKENS

    def add(self, branch: Branch) -> None:
        branch.start = self.length
        self.branches.append(branch)
        self.length += len(branch.own_ids)

    def fill(self, token_ids_T: np.ndarray, positions_T: np.ndarray, allowed_TT: np.ndarray | None) -> None:
        """Writes ids, positions and who may see whom; `allowed_TT` comes with its diagonal set."""
        prompt = len(self.prompt)
        token_ids_T[:prompt] = self.prompt
        positions_T[:prompt] = np.arange(prompt)
        if allowed_TT is not None:
            allowed_TT[:prompt, :prompt] = _lower(prompt)
        for branch in self.branches:
            own = branch.own_ids
            span = slice(branch.start, branch.start + len(own))
            token_ids_T[span] = own
            positions_T[span] = np.arange(prompt, prompt + len(own))
            if allowed_TT is not None:
                allowed_TT[span, :prompt] = True
                allowed_TT[span, span] = _lower(len(own))


def build_trees(rows: Sequence[Row], share_prompts: bool = True) -> list[Tree]:
    """Trees of all rows, shortest first; the order depends only on the rows and their order.

    Without `share_prompts` each tree has one branch: a plain sequence.
    """
    open_trees: dict[bytes, Tree] = {}
    trees: list[Tree] = []
    for branch in _distinct(rows):
        prompt = branch.first.token_ids[: branch.first.positions[0]]
        key = prompt.tobytes()
        tree = open_trees.get(key)
        if tree is None or not share_prompts or not tree.fits(branch):
            tree = open_trees[key] = Tree(prompt, length=len(prompt))
            trees.append(tree)
        tree.add(branch)
    return sorted(trees, key=lambda tree: tree.length)


def cut_by_tokens(trees: Sequence[Tree], budget: int) -> Iterator[list[Tree]]:
    """Forward passes of at most `budget` tokens, padding included; at least one tree each; never trees with chains."""
    chosen: list[Tree] = []
    for tree in trees:
        is_full = (len(chosen) + 1) * tree.length > budget
        if chosen and (is_full or chosen[0].length <= TREE_TOKENS < tree.length):
            yield chosen
            chosen = []
        chosen.append(tree)
    if chosen:
        yield chosen


def _distinct(rows: Sequence[Row]) -> list[Branch]:
    """Rows by all that the forward pass and the softmax see of them."""
    branches: dict[tuple[bytes, bytes, bytes], Branch] = {}
    for row in rows:
        fed = row.token_ids[: row.positions[-1] + 1]
        key = (fed.tobytes(), row.positions.tobytes(), row.temperatures.tobytes())
        branch = branches.get(key)
        if branch is None:
            branches[key] = Branch([row], row.token_ids[row.positions[0] : row.positions[-1]])
        else:
            branch.rows.append(row)
    return list(branches.values())


def _lower(size: int) -> np.ndarray:
    return np.tri(size, dtype=bool)
