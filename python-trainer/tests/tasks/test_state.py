# SPDX-License-Identifier: Apache-2.0
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from whetstone_tasks import state

SDIST = {
    "lib-1.0/PKG-INFO": "Name: lib\nSummary: Does it.\n",
    "lib-1.0/lib/__init__.py": "x = 1\n",
    "lib-1.0/lib/__pycache__/__init__.cpython-311.pyc": "leak",
    "lib-1.0/lib.egg-info/SOURCES.txt": "leak",
    "lib-1.0/.git/HEAD": "leak",
    "lib-1.0/build/lib/lib/__init__.py": "leak",
    "lib-1.0/tests/test_lib.py": "def test(): pass\n",
}


def _make(folder: Path, out: str) -> dict[str, str]:
    request = folder / "request.json"
    names = {"archives": str(folder), "sdist": "lib.tar.gz", "wheels": ["dep.whl"], "distInfo": "lib-1.0"}
    needed = ["lib", "tests", "nowhere"]
    request.write_text(json.dumps({**names, "tool": {"t.py": "tool"}, "out": str(folder / out), "needed": needed}))
    sys.argv = ["state", str(request)]
    state.main()
    with tarfile.open(folder / out) as tar:
        return {member.name: _text(tar, member) for member in tar}


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    assert file is not None
    return file.read().decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(tmp_path / "lib.tar.gz", "w:gz") as tar:
        for name, text in SDIST.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    with zipfile.ZipFile(tmp_path / "dep.whl", "w") as wheel:
        wheel.writestr("dep/__init__.py", "y = 2\n")
    return tmp_path


def test_has_library_wheels_and_tool_and_no_leak(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _make(folder, "state.tar")
    assert sorted(files) == [
        "repo/PKG-INFO",
        "repo/lib/__init__.py",
        "repo/tests/test_lib.py",
        "site/dep/__init__.py",
        "site/lib-1.0.dist-info/METADATA",
        "tool/t.py",
    ]
    assert json.loads(capsys.readouterr().out) == {"files": 6, "missing": ["nowhere"], "summary": "Does it."}


def test_is_the_same_each_time(folder: Path) -> None:
    _make(folder, "one.tar")
    _make(folder, "two.tar")
    assert (folder / "one.tar").read_bytes() == (folder / "two.tar").read_bytes()
