# SPDX-License-Identifier: Apache-2.0
"""The run folder: weights/v<version>/ and checkpoints/step-<steps done>/.

What holds after a kill at any moment: a folder with its final name is complete, because it was built under a temporary
name, flushed, and renamed; state.json is written last and names the weights it belongs to.
Order of a step: weights, then checkpoint. So a checkpoint's weights exist; weights without a checkpoint are done again
(and kept as they are, since a version is immutable).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from whetstone_models.errors import ManifestError
from whetstone_models.manifest import MANIFEST, verify_manifest
from whetstone_models.reading import OnBytes, file_digest, open_followed, unheard
from whetstone_trainer.contract.errors import TrainerError

FORMAT, RUN_FORMAT, STATE = "whetstone.checkpoint/v1", "whetstone.run/v1", "state.json"

# A claim with a newer epoch may come while the worker cleans the same folder.
_CLAIMING = threading.Lock()


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


class RunFolder:
    """Paths and durable writes of one run. Version = steps done, so both are called `step` or `version` below."""

    def __init__(self, root: Path, model_path: Path) -> None:
        self.root, self.model_path = root, model_path

    def claim(self, job_uid: str, epoch: int) -> None:
        """Takes the folder for a job and epoch. Raises TrainerError for another job's folder or an older epoch."""
        path = self.root / "run.json"
        if path.is_file():
            held = json.loads(path.read_text())
            if held.get("jobUid") != job_uid:
                raise TrainerError(
                    "FAILED_PRECONDITION",
                    f"{self.root} belongs to job {held.get('jobUid')}, not {job_uid}; give each job its own run_path",
                )
            if held.get("epoch", 0) > epoch:
                raise TrainerError(
                    "STALE_EPOCH", f"epoch {epoch} is older than {held['epoch']}, which holds {self.root}"
                )
            if held.get("epoch") == epoch:
                return
        self.root.mkdir(parents=True, exist_ok=True)
        temporary = self.root / f".run.{uuid.uuid4().hex[:8]}.tmp"
        with _CLAIMING:
            try:
                temporary.write_text(json.dumps({"format": RUN_FORMAT, "jobUid": job_uid, "epoch": epoch}) + "\n")
                _sync(temporary)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
        _sync(self.root)

    def clean(self) -> None:
        """Removes what a killed process left under temporary names."""
        with _CLAIMING:
            _remove_temporary(self.root)
        _remove_temporary(self.root / "weights")
        _remove_temporary(self.root / "checkpoints")

    def weights(self, version: int) -> Path:
        return self.model_path if version == 0 else self.root / "weights" / f"v{version}"

    def checkpoint(self, step: int) -> Path:
        return self.root / "checkpoints" / f"step-{step}"

    def steps(self) -> list[int]:
        """Steps with a checkpoint, whole or not, oldest first."""
        return sorted(int(path.name[5:]) for path in self.root.glob("checkpoints/step-*"))

    def damaged(self) -> list[Path]:
        """Checkpoints that were set aside."""
        return sorted(self.root.glob("checkpoints/damaged-step-*"))

    def set_aside(self, step: int) -> Path:
        """Takes a damaged checkpoint out of the way, but keeps it: something in it may still be of use."""
        source = self.checkpoint(step)
        target = source.parent / f"damaged-{source.name}"
        for number in itertools.count(2):
            if not target.exists():
                break
            target = source.parent / f"damaged-{source.name}.{number}"
        source.rename(target)
        _sync(source.parent)
        return target

    def read_state(self, step: int, job_uid: str, on_bytes: OnBytes = unheard) -> State:
        """Raises TrainerError if the checkpoint is unreadable, another job's, or its weights are not what it says."""
        path = self.checkpoint(step) / STATE
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
            self.verified_digest(step, state.manifest_digest, on_bytes)
        return state

    def verified_digest(self, version: int, expected: str | None = None, on_bytes: OnBytes = unheard) -> str:
        """SHA-256 of the manifest of a version, after checking every file that it lists. Raises TrainerError."""
        directory = self.weights(version)
        try:
            verify_manifest(directory, on_bytes)
        except ManifestError as error:
            raise TrainerError("DATA_LOSS", f"{directory}: {error}") from error
        digest = manifest_digest(directory)
        if expected is not None and digest != expected:
            raise TrainerError("DATA_LOSS", f"{directory}: manifest digest {digest}, the checkpoint says {expected}")
        return digest

    def write_checkpoint(self, state: State, optimizer: torch.optim.Optimizer) -> Path:
        """Writes optimizer.pt, then state.json, then renames. An existing checkpoint of that step is replaced."""
        directory = self.checkpoint(state.step)
        directory.parent.mkdir(parents=True, exist_ok=True)
        staging = directory.parent / f".{directory.name}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            staging.mkdir()
            # No generator states: every random choice follows from the job's seed, the step and the epoch.
            # A file of ours: torch's own hides why a write failed.
            with (staging / "optimizer.pt").open("wb") as file:
                torch.save({"optimizer": optimizer.state_dict()}, file)
            _sync(staging / "optimizer.pt")
            (staging / STATE).write_text(json.dumps(_state_json(state, staging), indent=1) + "\n")
            _sync(staging / STATE)
            _sync(staging)
            self.discard(directory)
            staging.rename(directory)
        finally:
            shutil.rmtree(staging, ignore_errors=True)  # Of a write that failed: nothing is left behind.
        _sync(directory.parent)
        return directory

    def checkpoint_bytes(self, step: int) -> int:
        """What its files and those of its weights hold together."""
        folders = (self.checkpoint(step), self.weights(step))
        return sum(path.stat().st_size for folder in folders for path in folder.glob("*") if path.is_file())

    def read_optimizer(self, step: int, device: torch.device, on_bytes: OnBytes = unheard) -> dict[str, Any]:
        """Raises TrainerError: a file of a checkpoint that lists no digests shows only here that it is damaged."""
        path = self.checkpoint(step) / "optimizer.pt"
        try:
            with open_followed(path, _without_stop(on_bytes)) as file:
                return torch.load(file, map_location=device, weights_only=True)["optimizer"]
        except (OSError, RuntimeError, EOFError, KeyError, ValueError, UnpicklingError) as error:
            raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error

    def discard(self, directory: Path) -> None:
        """Removes a folder so that no half of it is ever seen under its name."""
        if directory.exists():
            doomed = directory.parent / f".{directory.name}.{uuid.uuid4().hex[:8]}.tmp"
            directory.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def prune(self, step: int, checkpoints_kept: int, max_policy_lag: int) -> None:
        """Keeps the newest checkpoints with their weights, and the weights that running episodes may still name.

        One version more than the lag window stays: engines load it until the controller has switched them.
        """
        steps = self.steps()
        kept = set(steps[-checkpoints_kept:])
        for old in steps:
            if old not in kept:
                self.discard(self.checkpoint(old))
        oldest = step - max_policy_lag - 1
        for path in self.root.glob("weights/v*"):
            version = int(path.name[1:])
            if version not in kept and version < oldest:
                self.discard(path)


def manifest_digest(directory: Path) -> str:
    return hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()


def _remove_temporary(parent: Path) -> None:
    for leftover in parent.glob(".*.tmp") if parent.is_dir() else ():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _without_stop(on_bytes: OnBytes) -> OnBytes:
    """For readers that take an exception between two reads for a damaged file: the next report stops the work."""

    def told(count: int) -> None:
        with contextlib.suppress(TrainerError):
            on_bytes(count)

    return told


def check_files(directory: Path, raw: dict[str, Any], on_bytes: OnBytes = unheard) -> None:
    """Size and digest of state.json and of every file that it lists. Raises TrainerError naming what differs.

    Checkpoints of older versions list none.
    """
    if "digest" in raw and raw["digest"] != _own_digest(raw):
        raise TrainerError("DATA_LOSS", f"{directory / STATE}: content differs from its own digest")
    for entry in raw.get("files", []):
        path = directory / entry["name"]
        size = path.stat().st_size
        if size != entry["size"]:
            raise TrainerError("DATA_LOSS", f"{path}: has {size} bytes, {STATE} says {entry['size']}")
        if file_digest(path, on_bytes) != entry["sha256"]:
            raise TrainerError("DATA_LOSS", f"{path}: content differs from the digest in {STATE}")


def _own_digest(raw: dict[str, Any]) -> str:
    rest = {name: value for name, value in raw.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _state_json(state: State, directory: Path) -> dict[str, Any]:
    files = [
        {"name": path.name, "size": path.stat().st_size, "sha256": file_digest(path)}
        for path in sorted(directory.iterdir())
        if path.name != STATE
    ]
    raw = {**_progress_json(state), "files": files}
    return {**raw, "digest": _own_digest(raw)}


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


def _sync(path: Path) -> None:
    """fsync of a file or a folder; a rename is durable only once its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
