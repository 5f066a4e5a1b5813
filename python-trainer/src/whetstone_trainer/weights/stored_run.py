# SPDX-License-Identifier: Apache-2.0
"""A run in an object store: the files of its run folder under the same names, so that the folder may be lost.

    runs/<job uid>/weights/v<version>/…, manifest.json last         before the engines hear of the version
    runs/<job uid>/checkpoints/step-<n>/…, state.json last          after it was written on disk, its weights before it
    runs/<job uid>/writer.json                                      which process writes; another one's stops

What holds at any moment: a version is whole if its manifest is there, a checkpoint if its state.json is, since what
comes last is written last and deleted first. So the newest checkpoint there can be restored, and the steps after it
that the ledger knows are done again from their manifests, as after any kill (I1). Blocking: a StoreError may be over
later.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whetstone_models.errors import ManifestError
from whetstone_models.manifest import MANIFEST, flush, is_below, parse_manifest, read_manifest, staging_directory
from whetstone_models.reading import OnBytes, unheard
from whetstone_store.errors import StoreError
from whetstone_store.transfer import Transfer, TransferError
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.weights.checkpoint import STATE, check_state
from whetstone_trainer.weights.run_folder import RunFolder, superseded
from whetstone_trainer.weights.store_waits import is_damage
from whetstone_trainer.weights.stored_runs import WRITER, folder_of, numbered

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

_PART_BYTES = 1 << 20
# Of one file, however large.
_FILE_S = 3600.0

# Name below a folder, bytes, SHA-256.
Listed = tuple[str, int, str]


class StoredRun:
    """One process's hold of a run. A file's name below the run's folder is its name there."""

    def __init__(self, store: ObjectStore, folder: RunFolder, job_uid: str) -> None:
        self._store, self._folder, self._base = store, folder, folder_of(job_uid)
        self.url = f"{store.url}/{self._base}/weights"
        self._writer = uuid.uuid4().hex

    def claim(self) -> None:
        """From now on this process writes; what one before left unfinished goes."""
        self._store.put(self._name(WRITER), json.dumps({"writer": self._writer}).encode() + b"\n")
        self._store.drop_unfinished(self._base)

    def put_weights(self, version: int, on_bytes: OnBytes = unheard) -> None:
        """Version `version` of the run folder, unless it is there already. Files that are there whole are left."""
        directory = self._folder.weights(version)
        listed = [(one.name, one.size, one.sha256) for one in read_manifest(directory).files]
        self._put(directory, f"weights/v{version}", MANIFEST, listed, on_bytes)

    def disown_weights(self, version: int) -> None:
        """What is there of it is damaged: there is no such version any more, and `put_weights` writes all of it."""
        self._require_hold()
        self._store.delete([self._name(f"weights/v{version}/{MANIFEST}")])

    def put_weights_again(self, version: int) -> None:
        """All of a version that is whole on disk, whatever is there of it."""
        self.disown_weights(version)
        self.put_weights(version)

    def put_checkpoint(self, step: int, on_bytes: OnBytes = unheard) -> None:
        """The checkpoint of the run folder; its weights are there already."""
        directory = self._folder.checkpoint(step)
        listed = _listed_files(json.loads((directory / STATE).read_text()))
        self._put(directory, f"checkpoints/step-{step}", STATE, listed, on_bytes)

    def steps(self) -> list[int]:
        """Of the whole checkpoints, ascending."""
        return self._numbers("checkpoints/step-", STATE)

    def bytes_of(self, step: int) -> int:
        """What a checkpoint and its weights take there."""
        folders = (f"checkpoints/step-{step}", f"weights/v{step}")
        return sum(one.size for folder in folders for one in self._store.listed(self._name(folder)))

    def bring_checkpoint(self, step: int, on_bytes: OnBytes = unheard) -> None:
        """Into the run folder, in place of what is there. Raises TrainerError DATA_LOSS for one that is not whole."""

        def listed(text: bytes) -> list[Listed]:
            raw = json.loads(text)
            check_state(raw, STATE)
            return _listed_files(raw)

        self._bring(self._folder.checkpoint(step), f"checkpoints/step-{step}", STATE, listed, on_bytes)

    def bring_weights(self, version: int, on_bytes: OnBytes = unheard) -> bool:
        """As `bring_checkpoint`. False: there is no such version."""

        def listed(text: bytes) -> list[Listed]:
            return [(one.name, one.size, one.sha256) for one in parse_manifest(text).files]

        target = f"weights/v{version}"
        if self._store.size(self._name(f"{target}/{MANIFEST}")) is None:
            return False
        self._bring(self._folder.weights(version), target, MANIFEST, listed, on_bytes)
        return True

    def prune(self, step: int, checkpoints_kept: int, max_policy_lag: int) -> None:
        """As RunFolder.prune."""
        versions = self._numbers("weights/v", MANIFEST)
        old_steps, old_versions = superseded(self.steps(), versions, step, checkpoints_kept, max_policy_lag)
        if old_steps or old_versions:
            self._require_hold()
        for old in old_steps:
            self._remove(f"checkpoints/step-{old}", STATE)
        for version in old_versions:
            self._remove(f"weights/v{version}", MANIFEST)

    def _put(self, directory: Path, target: str, last: str, listed: Iterable[Listed], on_bytes: OnBytes) -> None:
        text, end = (directory / last).read_bytes(), self._name(f"{target}/{last}")
        held = self._held(end)
        missing = [
            one for one in listed if held != text or self._store.size(self._name(f"{target}/{one[0]}")) != one[1]
        ]
        if held == text and not missing:
            return
        self._require_hold()
        if held is not None:
            self._store.delete([end])
        for name, _, digest in missing:
            self._store.upload(self._name(f"{target}/{name}"), directory / name, digest, on_bytes)
        self._require_hold()
        self._store.put(end, text)

    def _held(self, name: str) -> bytes | None:
        """A small object; b"" for one that is damaged."""
        try:
            return self._store.read(name)
        except StoreError as error:
            if not error.is_damage:
                raise
            return b""

    def _bring(
        self, directory: Path, target: str, last: str, listed: Callable[[bytes], list[Listed]], on_bytes: OnBytes
    ) -> None:
        where = f"{self._store.url}/{self._name(target)}"
        try:
            text = self._store.read(self._name(f"{target}/{last}"))
            if text is None:
                raise TrainerError("DATA_LOSS", f"{where}/{last} is missing")
            with staging_directory(directory, replaces=True) as staging:
                for name, size, digest in listed(text):
                    self._fetch(where, staging / name, (name, size, digest), on_bytes)
                (staging / last).write_bytes(text)
                flush(staging / last)
                flush(staging)
                self._folder.discard(directory)
                staging.rename(directory)
            flush(directory.parent)
        except (ManifestError, ValueError, KeyError, TypeError) as error:
            raise TrainerError("DATA_LOSS", f"{where}: not whole: {error}") from error
        except (StoreError, TransferError) as error:
            if is_damage(error):
                raise TrainerError("DATA_LOSS", str(error)) from error
            raise

    def _fetch(self, where: str, path: Path, listed: Listed, on_bytes: OnBytes) -> None:
        name, size, expected = listed
        if not is_below(name):
            raise ManifestError(name, f"of {where} is not a file below a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, buffer = hashlib.sha256(), memoryview(bytearray(_PART_BYTES))
        with Transfer(self._store.origin(where), _FILE_S) as transfer, path.open("wb") as file:
            for at in range(0, size, _PART_BYTES):
                part = buffer[: min(_PART_BYTES, size - at)]
                transfer.read(name, at, part, size)
                digest.update(part)
                file.write(part)
                on_bytes(len(part))
        if digest.hexdigest() != expected:
            raise TrainerError("DATA_LOSS", f"{where}/{name}: content differs from the digest that is listed for it")
        flush(path)

    def _remove(self, target: str, last: str) -> None:
        end = self._name(f"{target}/{last}")
        rest = [one.name for one in self._store.listed(self._name(target)) if one.name != end]
        self._store.delete([end, *rest])

    def _numbers(self, start: str, last: str) -> list[int]:
        """N of every "<start><N>/<last>" there is, ascending."""
        return list(numbered(self._store.listed(self._name(start.partition("/")[0])), self._name(start), last))

    def _require_hold(self) -> None:
        """Two trainers of one job would mix their files. Raises TrainerError once another has taken over."""
        held: Any = json.loads(self._store.read(self._name(WRITER)) or b"{}")
        if held.get("writer") != self._writer:
            why = "is written by another trainer, which has taken over this job" if held else "has been deleted"
            raise TrainerError("CONFLICT", f"{self._store.url}/{self._base} {why}")

    def _name(self, file: str) -> str:
        return f"{self._base}/{file}"


def _listed_files(raw: dict[str, Any]) -> list[Listed]:
    return [(one["name"], one["size"], one["sha256"]) for one in raw["files"]]
