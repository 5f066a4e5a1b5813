# SPDX-License-Identifier: Apache-2.0
"""manifest.json: what a weights folder holds, written last. Needs no torch.

`{"format":"whetstone.weights/v1","version":N,"files":[{"name","size","sha256"}]}`; sizes are in bytes. A name is that
of a file below the folder: "model.safetensors", "adapter/adapter_config.json".
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from whetstone_models.errors import ManifestError
from whetstone_models.reading import OnBytes, file_digest, unheard

MANIFEST, FORMAT = "manifest.json", "whetstone.weights/v1"


@dataclass(frozen=True)
class Manifest:
    """A verified manifest: the policy version and the names of the files that it covers."""

    version: int
    files: tuple[str, ...]


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
    files = [describe(path, staging) for path in sorted(staging.rglob("*")) if path.is_file()]
    for path in staging.rglob("*"):
        if path.is_dir():
            flush(path)
    temporary = staging / f"{MANIFEST}.tmp"
    temporary.write_text(json.dumps({"format": FORMAT, "version": version, "files": files}, indent=1) + "\n")
    flush(temporary)
    temporary.rename(staging / MANIFEST)
    flush(staging)
    staging.rename(directory)
    flush(directory.parent)


def verify_manifest(directory: Path, on_bytes: OnBytes = unheard) -> Manifest:
    """Checks size and digest of every listed file. Raises ManifestError naming the first that differs."""
    raw = _read(directory)
    for entry in raw["files"]:
        path = directory / entry["name"]
        if not path.is_file():
            raise ManifestError(entry["name"], "listed in manifest.json but missing")
        if path.stat().st_size != entry["size"]:
            raise ManifestError(entry["name"], f"has {path.stat().st_size} bytes, manifest.json says {entry['size']}")
        if file_digest(path, on_bytes) != entry["sha256"]:
            raise ManifestError(entry["name"], "content differs from the digest in manifest.json")
    return Manifest(raw["version"], tuple(entry["name"] for entry in raw["files"]))


def _read(directory: Path) -> dict[str, Any]:
    try:
        raw = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError:
        raise ManifestError(MANIFEST, f"not found in {directory}; the folder may be incomplete") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ManifestError(MANIFEST, f"not valid JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ManifestError(f"{MANIFEST}.format", f"must be {FORMAT!r}")
    if not isinstance(raw.get("version"), int) or not isinstance(raw.get("files"), list):
        raise ManifestError(MANIFEST, "needs an integer `version` and a list `files`")
    for entry in raw["files"]:
        if not isinstance(entry, dict) or not {"name", "size", "sha256"} <= entry.keys():
            raise ManifestError(f"{MANIFEST}.files", "every entry needs name, size and sha256")
        if not _is_below(str(entry["name"])):
            raise ManifestError(f"{MANIFEST}.files", f"{entry['name']!r} is not a file below the folder")
    return raw


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return str(path) == name and name != "." and not path.is_absolute() and ".." not in path.parts


def describe(path: Path, folder: Path) -> dict[str, Any]:
    """Name below `folder`, size and digest of a file that is on disk from now on."""
    path.chmod(0o644)  # safetensors writes 0600, which an engine under another user could not read
    flush(path)
    return {"name": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "sha256": file_digest(path)}


def flush(path: Path) -> None:
    """fsync of a file or a folder; a rename is only durable once its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
