# SPDX-License-Identifier: Apache-2.0
"""Makes what the sandboxes of a library's tasks begin with, from its source package and the wheels that its tests
need.

`repo/` is the unpacked source package, `site/` what it imports; what would give an answer away is left out (L1):
compiled code, the history, metadata that lists files, builds. The archive has the same bytes for the same packages."""

import fnmatch
import io
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

LEAKS = (
    "*.pyc",
    "*.pyo",
    "*.so",
    "__pycache__",
    "*.egg-info",
    ".git",
    ".hg",
    ".eggs",
    "build",
    "dist",
    ".tox",
    ".pytest_cache",
)
"""Names of files and folders (L1)."""


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    archives = Path(request["archives"])
    files = {f"repo/{path}": data for path, data in _source(archives / request["sdist"]).items()}
    for wheel in request["wheels"]:
        files |= {f"site/{path}": data for path, data in _wheel(archives / wheel).items()}
    # Libraries ask for their own version by their metadata.
    metadata = files.get("repo/PKG-INFO", b"")
    files[f"site/{request['distInfo']}.dist-info/METADATA"] = metadata
    for path, text in request["tool"].items():
        files[f"tool/{path}"] = text.encode()
    _write(Path(request["out"]), files)
    missing = [
        path
        for path in request["needed"]
        if not any(name == f"repo/{path}" or name.startswith(f"repo/{path}/") for name in files)
    ]
    summary = next(
        (line[9:] for line in metadata.decode(errors="replace").splitlines() if line.startswith("Summary: ")), ""
    )
    print(json.dumps({"files": len(files), "missing": missing, "summary": summary}))


def _is_leak(path: str) -> bool:
    return any(fnmatch.fnmatch(part, leak) for part in PurePosixPath(path).parts for leak in LEAKS)


def _source(archive: Path) -> dict[str, bytes]:
    files = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = "/".join(PurePosixPath(member.name).parts[1:])
            data = tar.extractfile(member) if member.isfile() else None
            if data is not None and path and not _is_leak(path):
                files[path] = data.read()
    return files


def _wheel(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}


def _write(out: Path, files: dict[str, bytes]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size = len(files[path])
            tar.addfile(entry, io.BytesIO(files[path]))
    os.chmod(out, 0o644)


if __name__ == "__main__":
    main()
