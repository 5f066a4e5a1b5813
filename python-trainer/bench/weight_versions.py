# SPDX-License-Identifier: Apache-2.0
"""Versions to switch between: two with nothing in common but their norms, and some that differ in a few blocks."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import numpy as np

from whetstone_models.init import init_model
from whetstone_models.manifest import SHARDS, publish_directory, read_manifest, staging_directory
from whetstone_models.tensors import BLOCK_BYTES

SHAPE = {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 2816}
LAYER_MIB = (4 * 1024**2 + 3 * 1024 * 2816) * 4 / 2**20
CHANGED_SHARE = 0.02


def make_versions(root: Path, mib: int, deltas: int) -> list[Path]:
    """weights/v1 and v2, then `deltas` versions each of which differs from the one before in 2 % of its blocks."""
    folders = [root / f"weights/v{version}" for version in range(1, 3 + deltas)]
    for seed, folder in enumerate(folders[:2]):
        init_model(folder, "tiny", seed, **SHAPE, num_hidden_layers=max(1, round(mib / LAYER_MIB)))
    for number, (before, after) in enumerate(itertools.pairwise(folders[1:])):
        _change(before, after, number)
    return folders


def _change(before: Path, after: Path, seed: int) -> None:
    blocks = [
        (entry.file, entry.offset + at)
        for entry in read_manifest(before).tensors
        for at in range(0, entry.size, BLOCK_BYTES)
    ]
    with staging_directory(after) as staging:
        for file in [*before.glob("*.json"), *before.glob(SHARDS)]:
            if file.name not in ("manifest.json", "blocks.json"):
                shutil.copyfile(file, staging / file.name)
        for file, offset in random.Random(seed).sample(blocks, max(1, round(CHANGED_SHARE * len(blocks)))):
            numbers = np.memmap(staging / file, np.float32, "r+", offset, 1)
            numbers[0] += 0.001
            numbers.flush()
        publish_directory(staging, after, 2)


def weight_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(SHARDS))
