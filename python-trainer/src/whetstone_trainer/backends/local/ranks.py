# SPDX-License-Identifier: Apache-2.0
"""Processes that compute a job's passes together. Alone, all of this does nothing.

Each rank walks through the same rows in the same order and computes every so many-th pass. Gradients are added up by
whatever shards the model; what else depends on the passes is joined here. So one rank and several give the same numbers
(I10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from whetstone_trainer.backends.local.micro_batches import MicroBatch

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process is `index` of `count`; several are the default group of torch.distributed.

    `together`: so many neighbours compute each of their passes together, and find the same numbers.
    """

    index: int = 0
    count: int = 1
    together: int = 1

    @property
    def _teams(self) -> int:
        return self.count // self.together

    def tokens_of_pass(self, rows_tokens: int, budget: int) -> int:
        """Most ids of a pass, so that there is one for everybody."""
        return min(budget, -(-rows_tokens // self._teams)) if self._teams > 1 else budget

    def own(self, micros: Iterable[MicroBatch]) -> Iterator[MicroBatch]:
        """Those that this rank computes: as many as each other rank, since a sharded model computes on all at once.

        A rank that has one less repeats a pass as a filler, which counts for nothing.
        """
        teams, own = self._teams, self.index // self.together
        if teams == 1:
            yield from micros
            return
        number, held = -1, None
        for number, micro in enumerate(micros):
            if number % teams == own:
                yield micro
            if held is None or number % teams == own:
                held = micro
        if held is not None and number % teams < own:
            yield replace(held, is_filler=True)

    def joined(self, found: Mapping[int, T]) -> dict[int, T]:
        """What each rank found, by a key that only one of them has, or those that compute together."""
        if self.count == 1:
            return dict(found)
        everybody: list[Any] = [None] * self.count
        dist.all_gather_object(everybody, dict(found))
        return {key: value for one in everybody for key, value in one.items()}

    def joined_tally(self, tally: T, summed: Iterable[str], largest: Iterable[str]) -> T:
        """A dataclass of numbers, these fields of it summed over the ranks, and those their largest."""
        if self.count == 1:
            return tally
        # Of those that computed together all have counted the same.
        everybody = [one for index, one in self.joined({self.index: tally}).items() if index % self.together == 0]
        sums = {name: sum(getattr(one, name) for one in everybody) for name in summed}
        maxima = {name: max(getattr(one, name) for one in everybody) for name in largest}
        return replace(tally, **sums, **maxima)  # type: ignore


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that is sharded over the ranks, which must all ask; any other as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_tensors(module: nn.Module, ranks: Ranks) -> dict[str, Tensor]:
    """On the first rank's host, tensor by tensor; the others, which must ask too, keep none of them."""
    found = dict[str, Tensor]()
    for name, parameter in module.named_parameters():
        tensor = whole(parameter.detach())
        if ranks.index == 0:
            found[name] = tensor.cpu()
    return found


def own_shard(tensor: Tensor) -> Tensor:
    """What this rank holds of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def sharded_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, which every rank has, cut as `parameter` is."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)


def copy_whole(parameter: Tensor, tensor: Tensor, keep_finer: bool = False) -> None:
    """Without a gradient. `keep_finer`: a number that is the tensor's, written in its type, stays as it is."""
    with torch.no_grad():
        own, given = own_shard(parameter), own_shard(sharded_like(tensor.to(parameter.device), parameter))
        own.copy_(torch.where(own.to(given.dtype) == given, own, given.to(own.dtype)) if keep_finer else given)
