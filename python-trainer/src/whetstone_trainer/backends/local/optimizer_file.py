# SPDX-License-Identifier: Apache-2.0
"""An optimizer's state as a file of a checkpoint."""

from __future__ import annotations

import contextlib
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from whetstone_models.reading import OnBytes, open_followed
from whetstone_trainer.contract.errors import TrainerError

POLICY = "optimizer.pt"


def write_optimizer(directory: Path, optimizer: torch.optim.Optimizer, name: str = POLICY) -> None:
    """No generator states: every random choice follows from the job's seed, the step and the epoch."""
    # A file of ours: torch's own hides why a write failed.
    with (directory / name).open("wb") as file:
        torch.save({"optimizer": optimizer.state_dict()}, file)


def read_optimizer(directory: Path, device: torch.device, on_bytes: OnBytes, name: str = POLICY) -> dict[str, Any]:
    """Raises TrainerError: a file of a checkpoint that lists no digests shows only here that it is damaged."""
    path = directory / name
    try:
        with open_followed(path, _without_stop(on_bytes)) as file:
            return torch.load(file, map_location=device, weights_only=True)["optimizer"]
    except (OSError, RuntimeError, EOFError, KeyError, ValueError, UnpicklingError) as error:
        raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error


def _without_stop(on_bytes: OnBytes) -> OnBytes:
    """For readers that take an exception between two reads for a damaged file: the next report stops the work."""

    def told(count: int) -> None:
        with contextlib.suppress(TrainerError):
            on_bytes(count)

    return told
