# SPDX-License-Identifier: Apache-2.0
"""Who may import whom in the trainer: a second backend must fit without a change of service, batch or weights."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "whetstone_trainer"
PROTOCOL = "backends.protocol"
# Folder → what it may import beside itself.
ALLOWED = {
    "contract": {"algorithms"},
    "batch": {"contract"},
    "algorithms": {"batch", "contract"},
    "weights": {"contract"},
    "backends": {"algorithms", "batch", "contract"},
    "service": {"algorithms", "batch", "contract", "weights", PROTOCOL},
}


def imported(path: Path) -> set[str]:
    """Modules of the trainer, without the name of the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.removeprefix("whetstone_trainer.") for name in names if name.startswith("whetstone_trainer.")}
    return found


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_go_one_way(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        for module in imported(path):
            names = {module, module.partition(".")[0]}
            assert names & (ALLOWED[folder] | {folder}), f"{path.relative_to(ROOT)} imports {module}"


def test_every_folder_is_in_the_table() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ALLOWED)
