# SPDX-License-Identifier: Apache-2.0
"""The data folder of a process that shares none with others: models that were pushed are fetched by digest, once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from whetstone_models.errors import ModelError
from whetstone_models.manifest import flush, is_below
from whetstone_models.reading import OnBytes, unheard

if TYPE_CHECKING:
    from whetstone_store.artifact_source import ArtifactSource, SourceFile
    from whetstone_tls import TlsIdentity

T = TypeVar("T")

FIELD = "model"
# As services/libs/core names the folder of an artifact below anybody's data folder.
_ARTIFACT = re.compile(r".*/artifacts/sha256/(?P<digest>[0-9a-f]{64})/files(?P<below>/.+)?")
# Of the models that were used last, so that a job's own, its reference and its critic are among them.
_KEPT = 4
# For a controller that is being started, or replaced.
_PATIENCE_S = 600.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_DRAFT = ".draft"

# Given the bytes in all, what is told of each part.
Heard = Callable[[int], OnBytes]


class OwnData:
    """Paths of other processes, as they are below `root`. An artifact never changes, so one that is there is used."""

    def __init__(self, root: Path, source: ArtifactSource) -> None:
        self._root, self._source = root.absolute(), source
        self._contents = self._root / "artifacts/sha256"
        self._fetching = threading.Lock()

    def run(self, path: Path) -> Path:
        """A run's folder here."""
        return self._root / "runs" / path.name

    def delete_run(self, job_uid: str) -> None:
        """Nobody else reaches it. Safe to repeat."""
        folder = self._root / "runs" / job_uid
        if folder.is_dir():
            shutil.rmtree(folder)

    def place(self, path: Path) -> Path:
        """An artifact's folder here, whether it was fetched or not; any other path as it is."""
        named = _ARTIFACT.fullmatch(str(path))
        return path if named is None else self._files(named["digest"]) / (named["below"] or "").lstrip("/")

    def bring(self, path: Path, heard: Heard = lambda _: unheard) -> Path:
        """`place`, with the artifact's files. Blocking; what `heard` gives may raise to stop it.

        Raises ModelError for an artifact that is not there, or when nobody gave it within ten minutes.
        """
        named = _ARTIFACT.fullmatch(str(path))
        if named is None:
            return path
        with self._fetching:
            if not self._files(named["digest"]).is_dir():
                self._fetch(named["digest"], heard)
            os.utime(self._contents / named["digest"])
            self._drop_old()
        return self.place(path)

    def _files(self, digest: str) -> Path:
        return self._contents / digest / "files"

    def _fetch(self, digest: str, heard: Heard) -> None:
        draft = self._contents / f"{digest}{_DRAFT}"
        until = time.monotonic() + _PATIENCE_S
        shutil.rmtree(draft, ignore_errors=True)  # Of a process that was killed.
        files = _patiently(lambda: self._source.files(digest), heard(0), until)
        on_bytes = heard(sum(one.size for one in files))
        for one in files:
            if not is_below(one.path):
                raise ModelError(FIELD, f"sha256:{digest} has a file {one.path!r}, which is none below a folder")
            _patiently(lambda one=one: self._fetch_file(digest, one, draft / "files", on_bytes), on_bytes, until)
        draft.rename(self._contents / digest)
        flush(self._contents)

    def _fetch_file(self, digest: str, file: SourceFile, folder: Path, on_bytes: OnBytes) -> None:
        path, sha256 = folder / file.path, hashlib.sha256()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for part in self._source.read(digest, file.path):
                sha256.update(part)
                out.write(part)
                on_bytes(len(part))
        if sha256.hexdigest() != file.sha256:
            raise ModelError(FIELD, f"{file.path} of sha256:{digest} did not arrive as it is stored")
        flush(path)

    def _drop_old(self) -> None:
        whole = [one for one in self._contents.iterdir() if not one.name.endswith(_DRAFT)]
        for old in sorted(whole, key=lambda one: one.stat().st_mtime, reverse=True)[_KEPT:]:
            gone = old.with_suffix(_DRAFT)  # At once, so that no half of it is taken for whole.
            shutil.rmtree(gone, ignore_errors=True)
            old.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def own_data(tls: TlsIdentity | None) -> OwnData | None:
    """By WHETSTONE_DATA_PATH and WHETSTONE_ARTIFACT_ADDRESS. None: this process shares the controller's data folder."""
    root, address = os.environ.get("WHETSTONE_DATA_PATH"), os.environ.get("WHETSTONE_ARTIFACT_ADDRESS")
    if not root or not address:
        return None
    from whetstone_store.artifact_source import ArtifactSource

    return OwnData(Path(root), ArtifactSource(address, tls))


def _patiently(act: Callable[[], T], on_bytes: OnBytes, until: float) -> T:
    """Repeats it while the controller is away."""
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            return act()
        except ConnectionError as error:
            if time.monotonic() > until:
                raise ModelError(FIELD, str(error)) from error
        on_bytes(0)
        time.sleep(wait_s)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 2)
