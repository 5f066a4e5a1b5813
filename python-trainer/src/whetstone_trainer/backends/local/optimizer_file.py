# SPDX-License-Identifier: Apache-2.0
"""An optimizer's state in a checkpoint: one file, or of several ranks a file each, with what that rank holds."""

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
from whetstone_trainer.backends.local.ranks import Ranks, own_shard, sharded_like
from whetstone_trainer.contract.errors import TrainerError

POLICY = "optimizer.pt"
# Its methods are put there when it is imported.
WRITING: Any = config


def write_optimizer(
    directory: Path, module: nn.Module, optimizer: torch.optim.Optimizer, ranks: Ranks, name: str = POLICY
) -> None:
    """By each rank what it holds; any number of ranks can read it. All must call, and nothing is gathered.

    No generator states: every random choice follows from the job's seed, the step and the epoch.
    """
    state = optimizer.state_dict()
    state["state"] = {
        index: {key: own_shard(value).cpu() if isinstance(value, DTensor) else value for key, value in of.items()}
        for index, of in state["state"].items()
    }
    # A file of ours: torch's own hides why a write failed. No checksums of torch's: they cost more than the rest of
    # writing, and the checkpoint has digests.
    with (directory / _file_of(name, ranks)).open("wb") as file, WRITING.patch("save.compute_crc32", False):
        torch.save({"optimizer": state, "names": _trained(module)}, file)


def _file_of(name: str, ranks: Ranks) -> str:
    """The names of ranks' files, sorted, are in the order of the ranks."""
    if ranks.count == 1:
        return name
    return f"{Path(name).stem}-{ranks.index + 1:05d}-of-{ranks.count:05d}.pt"


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
        files, is_sharded = _files_of_ranks(directory, name), any(isinstance(one, DTensor) for one in parameters)
        if is_sharded or files:
            # A tensor at a time is read into memory, and of each a rank keeps its part.
            found = _together(
                [torch.load(one, map_location="cpu", weights_only=True, mmap=True) for one in files or [path]]
            )
        else:
            with open_followed(path, _without_stop(on_bytes)) as file:
                found = torch.load(file, map_location="cpu", weights_only=True)
        state = _in_order_of(found, _trained(module))
        for index, of in state["state"].items():
            whole = {key: _joined(value) for key, value in of.items()}
            state["state"][index] = {key: _cut(value, parameters[index]) for key, value in whole.items()}
            if is_sharded or files:
                on_bytes(sum(value.nbytes for value in whole.values() if isinstance(value, Tensor)))
        optimizer.load_state_dict(state)
    except (OSError, RuntimeError, EOFError, KeyError, IndexError, ValueError, UnpicklingError) as error:
        raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error


def _files_of_ranks(directory: Path, name: str) -> list[Path]:
    """In the order of the ranks; empty: one rank has written all of it. Raises OSError where one is missing."""
    files = sorted(directory.glob(f"{Path(name).stem}-?????-of-?????.pt"))
    expected = int(files[0].stem[-5:]) if files else 0
    if len(files) != expected:
        raise FileNotFoundError(f"{len(files)} of {expected} files {files[0].name} … are there")
    return files


def _together(files: list[dict[str, Any]]) -> dict[str, Any]:
    """What the ranks wrote as one state, in which a tensor that they share is the list of their parts."""
    first, *others = [one["optimizer"]["state"] for one in files]
    for index, of in first.items():
        for key, value in of.items():
            if others and isinstance(value, Tensor) and value.dim():
                of[key] = [value, *(one[index][key] for one in others)]
    return files[0]


def _joined(value: Any) -> Any:
    """Ranks share tensors by their first dimension."""
    return torch.cat(value) if isinstance(value, list) else value


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
