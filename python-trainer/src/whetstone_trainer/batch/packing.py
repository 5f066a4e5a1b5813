# SPDX-License-Identifier: Apache-2.0
"""Packs sequences so that what they share is computed once.

Members of a group start from the same prompt, and short answers are often the same. Sequences with one prompt become a
tree: the prompt, then every distinct continuation as a branch that sees the prompt and itself but not its neighbours.
Each token is computed as if its sequence stood alone; rows with equal ids even share their branch.

Trees follow one another in one flat pass without padding; which tokens attend to which is `tree_attention`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from whetstone_trainer.batch.rows import Row


@dataclass
class Branch:
    """Rows with equal ids, trained tokens, temperatures and supports. `start`: where its own ids begin in the tree."""

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

    def add(self, branch: Branch) -> None:
        branch.start = self.length
        self.branches.append(branch)
        self.length += len(branch.own_ids)

    def token_ids(self) -> np.ndarray:
        return np.concatenate([self.prompt, *(branch.own_ids for branch in self.branches)])

    def positions(self) -> np.ndarray:
        """Of each token in its sequence."""
        prompt = len(self.prompt)
        own = [np.arange(prompt, prompt + len(branch.own_ids)) for branch in self.branches]
        return np.concatenate([np.arange(prompt), *own])


def build_trees(rows: Sequence[Row], most_tokens: int) -> list[Tree]:
    """Trees of all rows, shortest first; the order depends only on the rows and their order.

    A tree has at most `most_tokens`, so that it fits into one pass; with 0 each has one branch: a plain sequence.
    """
    open_trees: dict[bytes, Tree] = {}
    trees: list[Tree] = []
    for branch in _distinct(rows):
        prompt = branch.first.token_ids[: branch.first.positions[0]]
        key = prompt.tobytes()
        tree = open_trees.get(key)
        if tree is None or tree.length + len(branch.own_ids) > most_tokens:
            tree = open_trees[key] = Tree(prompt, length=len(prompt))
            trees.append(tree)
        tree.add(branch)
    return sorted(trees, key=lambda tree: tree.length)


def cut_by_tokens(trees: Sequence[Tree], budget: int, padded: bool = False) -> Iterator[list[Tree]]:
    """Forward passes of at most `budget` tokens, at least one tree each. `padded`: each counts as the longest."""
    chosen: list[Tree] = []
    tokens = 0
    for tree in trees:
        tokens = (len(chosen) + 1) * tree.length if padded else tokens + tree.length
        if chosen and tokens > budget:
            yield chosen
            chosen, tokens = [], tree.length
        chosen.append(tree)
    if chosen:
        yield chosen


def _distinct(rows: Sequence[Row]) -> list[Branch]:
    """Rows by all that the forward pass and the softmax see of them."""
    branches: dict[tuple[bytes, ...], Branch] = {}
    for row in rows:
        fed = row.token_ids[: row.positions[-1] + 1]
        supports = (one.tobytes() for one in row.support)
        key = (fed.tobytes(), row.positions.tobytes(), row.temperatures.tobytes(), *supports)
        branch = branches.get(key)
        if branch is None:
            branches[key] = Branch([row], row.token_ids[row.positions[0] : row.positions[-1]])
        else:
            branch.rows.append(row)
    return list(branches.values())
