# SPDX-License-Identifier: Apache-2.0
"""A checkpoint: state.json, the files that the backend wrote, and the name of the weights that belong to it.

state.json is written last, with size and digest of every other file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whetstone_models.manifest import describe, flush, staging_directory
from whetstone_models.reading import OnBytes, file_digest, unheard
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.weights.run_folder import RunFolder

FORMAT, STATE = "whetstone.checkpoint/v1", "state.json"


@dataclass
class State:
    """What state.json holds."""

    job_uid: str
    step: int
    weights_path: str
    # Empty for version 0, the user's own folder.
    manifest_digest: str
    # {"step", "batchDigest", "episodes", "dropped"} of every step behind these weights, oldest first: how many episodes
    # were trained, and the ids of those that could not be.
    consumed: list[dict[str, Any]] = field(default_factory=list)
    # JSON form of the TrainResult of the last step; absent before the first.
    last_result: dict[str, Any] | None = None


def read_state(folder: RunFolder, step: int, job_uid: str, on_bytes: OnBytes = unheard) -> State:
    """Raises TrainerError if the checkpoint is unreadable, another job's, or its weights are not what it says."""
    path = folder.checkpoint(step) / STATE
    try:
        raw = json.loads(path.read_text())
        check_files(path.parent, raw, on_bytes)
        weights = raw["weights"]
        state = State(
            raw["jobUid"],
            raw["step"],
            weights["path"],
            weights["manifestDigest"],
            raw["consumed"],
            raw["lastResult"],
        )
    except FileNotFoundError as error:
        raise TrainerError("DATA_LOSS", f"{error.filename} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainerError("DATA_LOSS", f"{path}: not a checkpoint: {error!r}") from error
    if state.job_uid != job_uid:
        raise TrainerError("FAILED_PRECONDITION", f"{path}: belongs to job {state.job_uid}, not {job_uid}")
    if step > 0:
        folder.verified_digest(step, state.manifest_digest, on_bytes)
    return state


def write_checkpoint(folder: RunFolder, state: State, save: Callable[[Path], None]) -> Path:
    """Whatever `save` writes into the folder that it is given, then state.json, then the folder's name.

    An existing checkpoint of that step is replaced.
    """
    directory = folder.checkpoint(state.step)
    with staging_directory(directory, replaces=True) as staging:
        save(staging)
        raw = {**_progress_json(state), "files": [describe(path, staging) for path in sorted(staging.iterdir())]}
        (staging / STATE).write_text(json.dumps({**raw, "digest": _own_digest(raw)}, indent=1) + "\n")
        flush(staging / STATE)
        flush(staging)
        folder.discard(directory)
        staging.rename(directory)
    flush(directory.parent)
    return directory


def check_files(directory: Path, raw: dict[str, Any], on_bytes: OnBytes = unheard) -> None:
    """Size and digest of state.json and of every file that it lists. Raises TrainerError naming what differs.

    Checkpoints of older versions list none.
    """
    check_state(raw, str(directory / STATE))
    for entry in raw.get("files", []):
        path = directory / entry["name"]
        size = path.stat().st_size
        if size != entry["size"]:
            raise TrainerError("DATA_LOSS", f"{path}: has {size} bytes, {STATE} says {entry['size']}")
        if file_digest(path, on_bytes) != entry["sha256"]:
            raise TrainerError("DATA_LOSS", f"{path}: content differs from the digest in {STATE}")


def check_state(raw: dict[str, Any], where: str) -> None:
    """The digest of state.json itself. Raises TrainerError."""
    if "digest" in raw and raw["digest"] != _own_digest(raw):
        raise TrainerError("DATA_LOSS", f"{where}: content differs from its own digest")


def _own_digest(raw: dict[str, Any]) -> str:
    rest = {name: value for name, value in raw.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _progress_json(state: State) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "jobUid": state.job_uid,
        "step": state.step,
        "policyVersion": state.step,
        "weights": {"path": state.weights_path, "manifestDigest": state.manifest_digest},
        "consumed": state.consumed,
        "lastResult": state.last_result,
    }
