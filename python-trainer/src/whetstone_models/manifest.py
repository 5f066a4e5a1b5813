# SPDX-License-Identifier: Apache-2.0
"""manifest.json: what a weights folder holds, written last. Needs no torch.

`{"format":"whetstone.weights/v1","version":N,"files":[{"name","size","sha256"}],"tensors":[{"name","file","dtype",
"shape","offset","size","sha256"}]}`; sizes and offsets are in bytes. A file's name is that of one below the folder:
"model.safetensors", "adapter/adapter_config.json". Folders of older versions list no tensors.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from whetstone_models.errors import ManifestError
from whetstone_models.reading import OnBytes, file_digest, unheard
from whetstone_models.tensors import BLOCKS, TensorEntry, describe_shard, parse_entry, write_blocks

MANIFEST, FORMAT = "manifest.json", "whetstone.weights/v1"
SHARDS = "*.safetensors"
# Shards whose digests are computed at a time.
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class FileEntry:
    """A file below the folder: its size in bytes, and its SHA-256 in lower-case hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder says of itself: its policy version, and the files and tensors that it covers."""

    version: int
    files: tuple[FileEntry, ...]
    # In the order of their bytes. Empty: an older version wrote the folder.
    tensors: tuple[TensorEntry, ...] = field(default=())

    def file(self, name: str) -> FileEntry | None:
        """None: it is not listed."""
        return next((entry for entry in self.files if entry.name == name), None)

    @property
    def shards(self) -> frozenset[str]:
        """Files that hold the listed tensors."""
        return frozenset(entry.file for entry in self.tensors)


@contextlib.contextmanager
def staging_directory(directory: Path, replaces: bool = False) -> Iterator[Path]:
    """A new folder beside `directory`, removed if the block fails. Raises FileExistsError unless it `replaces` one."""
    if directory.exists() and not replaces:
        raise FileExistsError(f"{directory} exists; a weights folder is immutable")
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = directory.parent / f".{directory.name}.{uuid.uuid4().hex[:8]}.tmp"
    staging.mkdir()
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def publish_directory(staging: Path, directory: Path, version: int) -> None:
    """Writes the manifest of `staging` and renames the folder into place; every file is on disk before either."""
    shards = sorted(staging.glob(SHARDS))
    with ThreadPoolExecutor(_THREADS) as pool:
        described = list(pool.map(describe_shard, shards))
    if shards:
        write_blocks(staging / BLOCKS, {name: one for _, _, blocks in described for name, one in blocks.items()})
    known = {shard: digest for shard, (digest, _, _) in zip(shards, described, strict=True)}
    files = [describe(path, staging, known.get(path)) for path in sorted(staging.rglob("*")) if path.is_file()]
    tensors = [entry.as_json() for _, entries, _ in described for entry in entries]
    for path in staging.rglob("*"):
        if path.is_dir():
            flush(path)
    temporary = staging / f"{MANIFEST}.tmp"
    raw = {"format": FORMAT, "version": version, "files": files, "tensors": tensors}
    temporary.write_text(json.dumps(raw, indent=1) + "\n")
    flush(temporary)
    temporary.rename(staging / MANIFEST)
    flush(staging)
    staging.rename(directory)
    flush(directory.parent)


def verify_manifest(directory: Path, on_bytes: OnBytes = unheard, but: Collection[str] = ()) -> Manifest:
    """Checks size and digest of every listed file; no digest of `but`. Raises ManifestError naming what differs."""
    manifest = read_manifest(directory)
    for entry in manifest.files:
        path = directory / entry.name
        if not path.is_file():
            raise ManifestError(entry.name, "listed in manifest.json but missing")
        if path.stat().st_size != entry.size:
            raise ManifestError(entry.name, f"has {path.stat().st_size} bytes, manifest.json says {entry.size}")
        if entry.name not in but and file_digest(path, on_bytes) != entry.sha256:
            raise ManifestError(entry.name, "content differs from the digest in manifest.json")
    return manifest


def read_manifest(directory: Path) -> Manifest:
    """The folder's manifest, whose files are not looked at. Raises ManifestError."""
    try:
        return parse_manifest((directory / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise ManifestError(MANIFEST, f"not found in {directory}; the folder may be incomplete") from None


def parse_manifest(text: bytes) -> Manifest:
    """Raises ManifestError."""
    try:
        raw: Any = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ManifestError(MANIFEST, f"not valid JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ManifestError(f"{MANIFEST}.format", f"must be {FORMAT!r}")
    tensors = raw.get("tensors", [])
    if not isinstance(raw.get("version"), int) or not all(isinstance(one, list) for one in (raw.get("files"), tensors)):
        raise ManifestError(MANIFEST, "needs an integer `version` and a list `files`")
    for entry in raw["files"]:
        if not isinstance(entry, dict) or not {"name", "size", "sha256"} <= entry.keys():
            raise ManifestError(f"{MANIFEST}.files", "every entry needs name, size and sha256")
        if not is_below(str(entry["name"])):
            raise ManifestError(f"{MANIFEST}.files", f"{entry['name']!r} is not a file below the folder")
    files = tuple(FileEntry(one["name"], one["size"], one["sha256"]) for one in raw["files"])
    return Manifest(raw["version"], files, tuple(map(parse_entry, tensors)))


def is_below(name: str) -> bool:
    """Whether a name is that of a file below a folder, whoever wrote it."""
    path = PurePosixPath(name)
    return str(path) == name and name != "." and not path.is_absolute() and ".." not in path.parts


def describe(path: Path, folder: Path, digest: str | None = None) -> dict[str, Any]:
    """Name below `folder`, size and digest (None: to be computed) of a file that is on disk from now on."""
    path.chmod(0o644)  # safetensors writes 0600, which an engine under another user could not read
    flush(path)
    size = path.stat().st_size
    return {"name": path.relative_to(folder).as_posix(), "size": size, "sha256": digest or file_digest(path)}


def flush(path: Path) -> None:
    """fsync of a file or a folder; a rename is only durable once its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
