# SPDX-License-Identifier: Apache-2.0
"""Tests that need verl and Ray: .whetstone/verl/bin/python -m pytest tests/verl, after deploy/local/setup-verl.sh."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainer_kit import free_port, nats_binary

from whetstone_models.init import init_model

# Elsewhere there is nothing to collect: a stage of CI of its own runs them.
collect_ignore_glob = [] if importlib.util.find_spec("verl") else ["test_*.py"]


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, store = free_port(), tmp_path_factory.mktemp("nats")
    command = [nats_binary(), "-js", "-sd", str(store), "-p", str(port), "-a", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    init_model(path, seed=3, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    return path
