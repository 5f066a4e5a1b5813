# SPDX-License-Identifier: Apache-2.0
"""Rows → mini-batches → micro-batches: one flat tensor of tokens each, without padding.

I10: micro-batches only bound memory. Each trained token carries its weight, taken from the whole mini-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.aggregation import token_weights
from whetstone_trainer.backends.local import pass_sizes
from whetstone_trainer.batch.packing import Tree, build_trees, cut_by_tokens
from whetstone_trainer.batch.rows import WHOLE, Row
from whetstone_trainer.contract.settings import AlgorithmSettings

# On a CPU a pass that stays in the cache is faster, measured: 2,048 tokens take no more time than 4,096, and two thirds
# of the memory; 16,384 take more. Of a wide model fewer do: a pass has so many hidden values, of all layers.
CPU_TOKENS, LEAST_CPU_TOKENS, CPU_VALUES = 2048, 1024, 2**24


@dataclass(frozen=True)
class Supports:
    """What truncated sampling kept, for those of the M trained tokens that were drawn so: entries of (token, id)."""

    token_E: Tensor
    id_E: Tensor

    def of(self, tokens_C: Tensor, count: int) -> Supports:
        """Those of some of the `count` trained tokens, which are counted anew."""
        index_M = torch.full((count,), -1, device=tokens_C.device)
        index_M[tokens_C] = torch.arange(len(tokens_C), device=tokens_C.device)
        token_E = index_M[self.token_E]
        return Supports(token_E[token_E >= 0], self.id_E[token_E >= 0])

    def outside(self, start: int, count: int, vocabulary: int) -> Tensor:
        """[count, vocabulary] bool: ids that tokens start … start + count - 1 could not be."""
        chosen_E = (self.token_E >= start) & (self.token_E < start + count)
        token_E, id_E = self.token_E[chosen_E] - start, self.id_E[chosen_E]
        outside = torch.zeros((count, vocabulary), dtype=torch.bool, device=token_E.device)
        outside[token_E] = True
        outside[token_E, id_E] = False
        return outside


@dataclass(frozen=True)
class MicroBatch:
    """T ids with M trained tokens of one forward pass; N trained tokens of the rows that they stand for.

    After the trees' own T and M may come some that only round the size of the pass: none of the N is one of them.
    """

    # The trees of the pass, one after the other.
    trees: list[Tree]
    token_ids_T: Tensor
    positions_T: Tensor
    # Index into the T of the token before each trained one.
    predictors_M: Tensor
    targets_M: Tensor
    temperatures_M: Tensor
    # Which of the M each of the N is.
    token_of_N: Tensor
    # The rows in order; their trained tokens, one after the other, are the N. `row_of_N` indexes `rows`.
    rows: list[Row]
    row_of_N: np.ndarray
    # None: all were drawn from the whole vocabulary.
    supports: Supports | None = None
    # Computed so that all ranks compute as many passes: its tokens weigh nothing, and it is counted by nobody.
    is_filler: bool = False

    @property
    def device(self) -> torch.device:
        return self.token_ids_T.device

    def gather(self, values: Sequence[np.ndarray]) -> Tensor:
        """Joins one array [K] a row to [N] on this batch's device."""
        return torch.from_numpy(np.concatenate(values)).to(self.device)

    def split(self, values_N: Tensor) -> list[np.ndarray]:
        """[N, ...] as one array [K, ...] a row, on the host; without a gradient."""
        bounds = np.cumsum([len(row.positions) for row in self.rows])[:-1]
        return np.split(values_N.detach().cpu().numpy(), bounds)

    def per_token(self, per_row: Sequence[float]) -> Tensor:
        """What each row's tokens weigh in a loss: [N] float32."""
        weights_R = np.asarray(per_row, dtype=np.float32) * (0 if self.is_filler else 1)
        return torch.from_numpy(weights_R[self.row_of_N]).to(self.device)


def micro_batches(
    rows: Sequence[Row], token_budget: int, device: torch.device, packed: bool = True, token_values: int = 1
) -> Iterator[MicroBatch]:
    """Cuts rows into forward passes of at most `token_budget` ids; at least one sequence each.

    Not `packed`: each distinct row is a sequence of its own, which is going to be padded. `token_values`: hidden values
    that the model's layers have for a token. On a CPU the size of a packed pass is rounded up within `token_budget`
    (`pass_sizes`).
    """
    trees = build_trees(rows, token_budget if packed else 0)
    is_cpu = device.type == "cpu"
    budget = min(token_budget, cpu_tokens(token_values)) if is_cpu else token_budget
    for chosen in cut_by_tokens(trees, budget, padded=not packed):
        yield _assemble(chosen, device, token_budget if packed and is_cpu else 0)


def cpu_tokens(token_values: int) -> int:
    """Ids of a pass on a CPU, at most."""
    return min(CPU_TOKENS, max(LEAST_CPU_TOKENS, CPU_VALUES // token_values))


def _assemble(trees: list[Tree], device: torch.device, rounded_within: int) -> MicroBatch:
    """`rounded_within`: most tokens that the pass may be rounded up to. 0: its sizes stay as they are."""
    starts = np.cumsum([0, *(tree.length for tree in trees)]).tolist()
    branches = [(start, branch) for start, tree in zip(starts, trees, strict=False) for branch in tree.branches]
    firsts = [branch.first for _, branch in branches]
    tokens_of_rows, next_token = [], 0
    for _, branch in branches:
        own = np.arange(next_token, next_token + len(branch.first.positions))
        tokens_of_rows += [own] * len(branch.rows)
        next_token += len(own)
    predictors_M = np.concatenate([offset + branch.predictors() for offset, branch in branches])
    more = pass_sizes.rounding(starts[-1], predictors_M, rounded_within) if rounded_within else pass_sizes.NONE
    no_ids_T, no_ids_M = (np.zeros(count, dtype=np.int64) for count in (more.tokens, len(more.predictors)))

    def tensor(*arrays: np.ndarray) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)).to(device)

    return MicroBatch(
        trees,
        tensor(*(tree.token_ids() for tree in trees), no_ids_T),
        tensor(*(tree.positions() for tree in trees), no_ids_T),
        tensor(predictors_M, more.predictors),
        tensor(*(row.token_ids[row.positions] for row in firsts), no_ids_M),
        tensor(*(row.temperatures for row in firsts), np.ones(len(more.predictors), dtype=np.float32)),
        tensor(*tokens_of_rows),
        [row for _, branch in branches for row in branch.rows],
        np.repeat(np.arange(len(tokens_of_rows)), [len(own) for own in tokens_of_rows]),
        _supports(firsts, device),
    )


def _supports(rows: Sequence[Row], device: torch.device) -> Supports | None:
    """Of rows whose trained tokens, one after the other, are the M."""
    if not any(len(row.support) for row in rows):
        return None
    of_tokens = [one for row in rows for one in (row.support if len(row.support) else [WHOLE] * len(row.positions))]
    token_E = np.repeat(np.arange(len(of_tokens)), [len(one) for one in of_tokens])
    return Supports(torch.from_numpy(token_E).to(device), torch.from_numpy(np.concatenate(of_tokens)).to(device))


def unit_of(batching: jobs.Batching) -> Callable[[Row], int]:
    """What a batch is cut between: trajectories, or groups where the job wants them whole."""
    return (lambda row: row.group) if batching.whole_groups else (lambda row: row.trajectory)


def mini_batches(
    rows: Sequence[Row], count: int, seed: int, step: int, epoch: int, unit: Callable[[Row], int]
) -> Iterator[list[Row]]:
    """Cuts rows into `count` parts of (almost) as many units, after a shuffle by seed, step and epoch.

    The rows of a unit stay together.
    """
    units: dict[int, list[Row]] = {}
    for row in rows:
        units.setdefault(unit(row), []).append(row)
    whole = list(units.values())
    order = np.random.Generator(np.random.PCG64([seed, step, epoch])).permutation(len(whole))
    if count == 1:
        # One part needs no order; keeping the given one makes a full batch independent of the seed.
        order = np.arange(len(whole))
    for part in np.array_split(order, count):
        if len(part):
            yield [row for index in part for row in whole[index]]


def scale_factor(rows: Sequence[Row], algorithm: AlgorithmSettings) -> float:
    """Divisor of seq-mean-token-sum-norm: what the job says, else the longest row of the batch."""
    return algorithm.options.loss_scale_factor or float(max((len(row.token_ids) for row in rows), default=1))


def row_weights(rows: Sequence[Row], algorithm: AlgorithmSettings, scale_factor: float) -> dict[int, float]:
    """Weight of each token of a row, by the row's identity, from denominators of the whole mini-batch (I10)."""
    lengths_R = torch.tensor([len(row.positions) for row in rows])
    shares_R = torch.tensor([row.share for row in rows], dtype=torch.float64)
    totals = float(lengths_R.sum()), float(shares_R.sum())
    # A sequence is a whole trajectory; a row that is a part of one has the sequence's length, not its own.
    weights_R = token_weights(lengths_R / shares_R, algorithm.aggregation, *totals, scale_factor)
    return {id(row): weight for row, weight in zip(rows, weights_R.tolist(), strict=True)}
