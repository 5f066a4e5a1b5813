# SPDX-License-Identifier: Apache-2.0
"""What manifest.json and blocks.json say of tensors, and weights in several files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from whetstone_models.errors import ManifestError, WeightsError
from whetstone_models.folder import WeightsForm, load_model, save_weights, split
from whetstone_models.init import init_model
from whetstone_models.manifest import parse_manifest, read_manifest, verify_manifest
from whetstone_models.tensors import BLOCK_BYTES, describe_shard, parse_blocks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_model(tmp_path / "model", seed=3)
    return tmp_path / "model"


@pytest.fixture
def sharded(folder: Path, tmp_path: Path) -> Path:
    save_weights(load_model(folder), tmp_path / "v1", 1, folder, WeightsForm(torch.bfloat16, 100_000))
    return tmp_path / "v1"


def test_each_tensor_has_its_shard_type_shape_and_digest(sharded: Path) -> None:
    manifest = read_manifest(sharded)
    assert len(manifest.shards) > 2
    seen = set[str]()
    for entry in manifest.tensors:
        data = (sharded / entry.file).read_bytes()[entry.offset : entry.offset + entry.size]
        tensor = load_file(sharded / entry.file)[entry.name]
        assert hashlib.sha256(data).hexdigest() == entry.sha256
        assert (data, entry.dtype) == (tensor.view(torch.uint8).numpy().tobytes(), "BF16")
        assert list(entry.shape) == list(tensor.shape)
        seen.add(entry.name)
    blocks = parse_blocks((sharded / "blocks.json").read_bytes())
    assert blocks.tensors.keys() == seen
    assert {entry.name: -(-entry.size // BLOCK_BYTES) for entry in manifest.tensors} == {
        name: len(one) for name, one in blocks.tensors.items()
    }


def test_several_files_are_a_hugging_face_folder(folder: Path, sharded: Path) -> None:
    ours, first = load_model(sharded, torch.bfloat16), load_model(folder).to(torch.bfloat16)
    theirs = AutoModelForCausalLM.from_pretrained(sharded, dtype=torch.bfloat16).state_dict()
    for name, parameter in ours.named_parameters():
        assert torch.equal(parameter, first.get_parameter(name))
        assert torch.equal(parameter, theirs[name])
    verify_manifest(sharded)


def test_a_folder_without_tensors_in_its_manifest_is_read(folder: Path) -> None:
    """As older versions wrote it."""
    raw = json.loads((folder / "manifest.json").read_text())
    del raw["tensors"]
    (folder / "manifest.json").write_text(json.dumps(raw))
    assert verify_manifest(folder).tensors == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", 4), ("offset", -1), ("file", "../x"), ("sha256", "beef"), ("shape", [1.5]), ("dtype", "F33")],
)
def test_entries_that_cannot_be_are_refused(folder: Path, field: str, value: object) -> None:
    raw = json.loads((folder / "manifest.json").read_text())
    raw["tensors"][0][field] = value
    with pytest.raises(ManifestError, match="tensors"):
        parse_manifest(json.dumps(raw).encode())


@pytest.mark.parametrize("cut", [4, 100, -1])
def test_truncated_shards_are_refused(folder: Path, cut: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(WeightsError, match="truncated"):
        describe_shard(path)


def test_split_keeps_order_and_gives_a_large_one_a_file_for_itself() -> None:
    sizes = {"a": 3, "b": 3, "c": 50, "d": 1, "e": 9}
    assert split(sizes, 10) == [["a", "b"], ["c"], ["d", "e"]]
    assert split({}, 10) == [[]]
