"""Rows → mini-batches → micro-batches of padded tensors.

I10: micro-batches only bound memory. Each trained token carries its weight, taken from the whole mini-batch.
Rows with equal ids share one forward pass: members of a group often say the same thing, short ones above all. The sum
over their tokens is the same; only the work is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whetstone_trainer.algorithms import token_weights
from whetstone_trainer.rows import Row
from whetstone_trainer.settings import AlgorithmSettings


@dataclass(frozen=True)
class MicroBatch:
    """B distinct sequences of up to T ids with M trained tokens; N trained tokens of the rows that they stand for."""

    token_ids_BT: Tensor
    # Index into the flattened [B·T] of the position that predicts each trained token.
    predictors_M: Tensor
    targets_M: Tensor
    temperatures_M: Tensor
    # Which of the M each of the N is.
    token_of_N: Tensor
    # The rows in order; their trained tokens, one after the other, are the N. `row_of_N` indexes `rows`.
    rows: list[Row]
    row_of_N: np.ndarray

    def gather(self, values: Sequence[np.ndarray]) -> Tensor:
        """Joins one array [K] a row to [N] on this batch's device."""
        return torch.from_numpy(np.concatenate(values)).to(self.token_ids_BT.device)


def micro_batches(rows: Sequence[Row], token_budget: int, device: torch.device) -> Iterator[MicroBatch]:
    """Cuts rows into forward passes of at most `token_budget` ids, padding included; at least one sequence each.

    Sequences are ordered by length, so that padding is small; the order is stable, so results are repeatable.
    """
    shared = _share_equal(rows)
    shared.sort(key=lambda members: int(members[0].positions[-1]))
    chosen: list[list[Row]] = []
    for members in shared:
        # The last trained token is predicted, never fed, so a sequence is as long as its position.
        if chosen and (len(chosen) + 1) * int(members[0].positions[-1]) > token_budget:
            yield _assemble(chosen, device)
            chosen = []
        chosen.append(members)
    if chosen:
        yield _assemble(chosen, device)


def _share_equal(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows by what the forward pass and the softmax see of them."""
    shared: dict[tuple[bytes, bytes, bytes], list[Row]] = {}
    for row in rows:
        fed = row.token_ids[: row.positions[-1] + 1]
        key = (fed.tobytes(), row.positions.tobytes(), row.temperatures.tobytes())
        shared.setdefault(key, []).append(row)
    return list(shared.values())


def _assemble(shared: list[list[Row]], device: torch.device) -> MicroBatch:
    firsts = [members[0] for members in shared]
    width = max(int(row.positions[-1]) for row in firsts)
    token_ids_BT = np.zeros((len(firsts), width), dtype=np.int64)
    for index, row in enumerate(firsts):
        token_ids_BT[index, : row.positions[-1]] = row.token_ids[: row.positions[-1]]
    counts_B = np.array([len(row.positions) for row in firsts])
    starts_B = np.cumsum(counts_B) - counts_B
    rows = [row for members in shared for row in members]
    repeats = [
        (start, count) for members, start, count in zip(shared, starts_B, counts_B, strict=True) for _ in members
    ]
    tensor = lambda parts: torch.from_numpy(np.concatenate(parts)).to(device)  # noqa: E731
    return MicroBatch(
        torch.from_numpy(token_ids_BT).to(device),
        tensor([index * width + row.positions - 1 for index, row in enumerate(firsts)]),
        tensor([row.token_ids[row.positions] for row in firsts]),
        tensor([row.temperatures for row in firsts]),
        tensor([np.arange(start, start + count) for start, count in repeats]),
        rows,
        np.repeat(np.arange(len(rows)), [count for _, count in repeats]),
    )


def mini_batches(rows: Sequence[Row], count: int, seed: int, step: int, epoch: int) -> Iterator[list[Row]]:
    """Cuts rows into `count` parts of (almost) equal size after a shuffle that follows from seed, step and epoch."""
    order = np.random.Generator(np.random.PCG64([seed, step, epoch])).permutation(len(rows))
    if count == 1:
        # One part needs no order; keeping the given one makes a full batch independent of the seed.
        order = np.arange(len(rows))
    for part in np.array_split(order, count):
        if len(part):
            yield [rows[index] for index in part]


def row_weights(rows: Sequence[Row], algorithm: AlgorithmSettings, scale_factor: float) -> dict[int, float]:
    """Weight of each token of a row, by the row's identity, from denominators of the whole mini-batch (I10)."""
    lengths_R = torch.tensor([len(row.positions) for row in rows])
    totals = float(lengths_R.sum()), float(len(rows))
    weights_R = token_weights(lengths_R, algorithm.aggregation, *totals, scale_factor)
    return {id(row): weight for row, weight in zip(rows, weights_R.tolist(), strict=True)}
