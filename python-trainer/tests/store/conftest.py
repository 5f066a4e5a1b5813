# SPDX-License-Identifier: Apache-2.0
"""Fixtures: an object store that runs, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from object_server import ObjectServer, as_client, object_server, open_store

from whetstone_store.store import ObjectStore


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with object_server(tmp_path / "objects") as server:
        as_client(server, monkeypatch)
        yield server


@pytest.fixture
def store(server: ObjectServer) -> ObjectStore:
    return open_store()
