# SPDX-License-Identifier: Apache-2.0
"""An optimizer's state as a file of a checkpoint."""

from __future__ import annotations

import contextlib
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.serialization import config

from whetstone_models.reading import OnBytes, open_followed
from whetstone_trainer.backends.local.ranks import Ranks, sharded_like, whole
from whetstone_trainer.contract.errors import TrainerError

POLICY = "optimizer.pt"
# Its methods are put there when it is imported.
WRITING: Any = config


def write_optimizer(
    directory: Path, module: nn.Module, optimizer: torch.optim.Optimizer, ranks: Ranks, name: str = POLICY
) -> None:
    """All of it in one file, by the first rank, whatever shards the module: any number of ranks can read it.

    No generator states: every random choice follows from the job's seed, the step and the epoch.
    """
    state = optimizer.state_dict()
    # Rank by rank the same order, since all must ask for a tensor.
    state["state"] = {
        index: {key: _whole(value, ranks) for key, value in of.items()} for index, of in state["state"].items()
    }
    if ranks.index == 0:
        # A file of ours: torch's own hides why a write failed. No checksums of torch's: they cost more than the rest of
        # writing, and the checkpoint has digests.
        with (directory / name).open("wb") as file, WRITING.patch("save.compute_crc32", False):
            torch.save({"optimizer": state, "names": _trained(module)}, file)


def _whole(value: Any, ranks: Ranks) -> Any:
    """On the first rank's host. The others, which must ask too, keep nothing of it."""
    if not isinstance(value, DTensor):
        return value
    gathered = whole(value)
    return gathered.cpu() if ranks.index == 0 else None


def _trained(module: nn.Module) -> list[str]:
    """In the order of the optimizer's parameters."""
    return [name for name, one in module.named_parameters() if one.requires_grad]


def read_optimizer(
    directory: Path, module: nn.Module, optimizer: torch.optim.Optimizer, on_bytes: OnBytes, name: str = POLICY
) -> None:
    """What `write_optimizer` wrote, into a new optimizer of `module`, whose parameters may stand in another order.

    Raises TrainerError: a file of a checkpoint that lists no digests shows only here that it is damaged.
    """
    path = directory / name
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    try:
        is_sharded = any(isinstance(one, DTensor) for one in parameters)
        if is_sharded:
            # Of each tensor a rank reads its part into memory; no rank ever holds all of them.
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        else:
            with open_followed(path, _without_stop(on_bytes)) as file:
                found = torch.load(file, map_location="cpu", weights_only=True)
        state = _in_order_of(found, _trained(module))
        for index, of in state["state"].items():
            state["state"][index] = {key: _cut(value, parameters[index]) for key, value in of.items()}
            if is_sharded:
                on_bytes(sum(value.nbytes for value in of.values() if isinstance(value, Tensor)))
        optimizer.load_state_dict(state)
    except (OSError, RuntimeError, EOFError, KeyError, IndexError, ValueError, UnpicklingError) as error:
        raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error


def _in_order_of(found: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Files of earlier versions have no names: their order is that of the module."""
    state, written = found["optimizer"], found.get("names", names)
    if written == names:
        return state
    at = {name: names.index(name) for name in written}
    groups = [
        group | {"params": sorted(at[written[index]] for index in group["params"])} for group in state["param_groups"]
    ]
    return {"state": {at[written[index]]: of for index, of in state["state"].items()}, "param_groups": groups}


def _cut(value: Any, parameter: Tensor) -> Any:
    if not isinstance(value, Tensor) or not value.dim():
        return value
    cut = sharded_like(value.to(parameter.device), parameter)
    # Not a view of the file.
    return cut.clone() if isinstance(cut, DTensor) else cut


def _without_stop(on_bytes: OnBytes) -> OnBytes:
    """For readers that take an exception between two reads for a damaged file: the next report stops the work."""

    def told(count: int) -> None:
        with contextlib.suppress(TrainerError):
            on_bytes(count)

    return told
