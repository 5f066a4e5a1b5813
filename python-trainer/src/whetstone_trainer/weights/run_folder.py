# SPDX-License-Identifier: Apache-2.0
"""The run folder: weights/v<version>/ and checkpoints/step-<steps done>/.

What holds after a kill at any moment: a folder with its final name is complete, because it was built under a temporary
name, flushed, and renamed. Order of a step: weights, then checkpoint. So a checkpoint's weights exist; weights without
a checkpoint are done again (and kept as they are, since a version is immutable).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whetstone_models.errors import ManifestError
from whetstone_models.manifest import MANIFEST, flush, verify_manifest
from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.contract.errors import TrainerError

RUN_FORMAT = "whetstone.run/v1"

# A claim with a newer epoch may come while the worker cleans the same folder.
_CLAIMING = threading.Lock()


class RunFolder:
    """Paths of one run, and what is renamed or removed in it. Version = steps done, so one number has both names."""

    def __init__(self, root: Path, model_path: Path) -> None:
        self.root, self.model_path = root, model_path
        self._epoch = 0

    def claim(self, job_uid: str, epoch: int) -> None:
        """Takes the folder for a job and epoch. Raises TrainerError for another job's folder or an older epoch."""
        path = self.root / "run.json"
        held = self._held() or {}
        if held.get("jobUid", job_uid) != job_uid:
            raise TrainerError(
                "FAILED_PRECONDITION",
                f"{self.root} belongs to job {held.get('jobUid')}, not {job_uid}; give each job its own run_path",
            )
        self._refuse_older(held, epoch)
        self._epoch = epoch
        if held.get("epoch") == epoch:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        temporary = self.root / f".run.{uuid.uuid4().hex[:8]}.tmp"
        with _CLAIMING:
            try:
                temporary.write_text(json.dumps({"format": RUN_FORMAT, "jobUid": job_uid, "epoch": epoch}) + "\n")
                flush(temporary)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
        flush(self.root)

    def require_held(self) -> None:
        """Raises TrainerError once the folder was claimed with a newer epoch: another trainer has the job by now."""
        self._refuse_older(self._held() or {}, self._epoch)

    def _refuse_older(self, held: dict[str, Any], epoch: int) -> None:
        if held.get("epoch", 0) > epoch:
            raise TrainerError("STALE_EPOCH", f"epoch {epoch} is older than {held['epoch']}, which holds {self.root}")

    def _held(self) -> dict[str, Any] | None:
        path = self.root / "run.json"
        return json.loads(path.read_text()) if path.is_file() else None

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
        flush(source.parent)
        return target

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

    def checkpoint_bytes(self, step: int) -> int:
        """What its files and those of its weights hold together."""
        folders = (self.checkpoint(step), self.weights(step))
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    def discard(self, directory: Path) -> None:
        """Removes a folder so that no half of it is ever seen under its name."""
        if directory.exists():
            doomed = directory.parent / f".{directory.name}.{uuid.uuid4().hex[:8]}.tmp"
            directory.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def prune(self, step: int, checkpoints_kept: int, max_policy_lag: int) -> None:
        """Removes what `superseded` says."""
        versions = [int(path.name[1:]) for path in self.root.glob("weights/v*")]
        old_steps, old_versions = superseded(self.steps(), versions, step, checkpoints_kept, max_policy_lag)
        for old in old_steps:
            self.discard(self.checkpoint(old))
        for version in old_versions:
            self.discard(self.weights(version))


def superseded(
    steps: Sequence[int], versions: Sequence[int], step: int, checkpoints_kept: int, max_policy_lag: int
) -> tuple[list[int], list[int]]:
    """Checkpoints and versions that nobody needs once `step` steps are done; `steps`: of checkpoints, ascending.

    What stays: the newest checkpoints with their weights, and the weights that running episodes may still name. One
    version more than the lag window stays: engines load it until the controller has switched them.
    """
    kept, oldest = set(steps[-checkpoints_kept:]), step - max_policy_lag - 1
    old_versions = [version for version in versions if version not in kept and version < oldest]
    return [old for old in steps if old not in kept], old_versions


def manifest_digest(directory: Path) -> str:
    return hashlib.sha256((directory / MANIFEST).read_bytes()).hexdigest()


def _remove_temporary(parent: Path) -> None:
    for leftover in parent.glob(".*.tmp") if parent.is_dir() else ():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
