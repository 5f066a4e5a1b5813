# SPDX-License-Identifier: Apache-2.0
"""A version in memory: read once, checked, and sharing with the served one what is the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from compute_device import DEVICE

from whetstone_engine.weights.building import Held, Place, Version, build
from whetstone_engine.weights.shards import ShardFolder
from whetstone_models.config import read_config
from whetstone_models.errors import WeightsError
from whetstone_models.folder import WeightsForm, load_model, save_weights
from whetstone_models.init import init_model
from whetstone_models.manifest import read_manifest
from whetstone_models.transformer import Transformer

TOKENS = torch.tensor([[5, 77, 130, 9]])


@pytest.fixture
def first(tmp_path: Path) -> Path:
    init_model(tmp_path / "v1", seed=3, num_attention_heads=4, num_key_value_heads=2)
    return tmp_path / "v1"


def read(folder: Path, held: Held | None = None, dtype: torch.dtype = torch.float32) -> Held:
    with ShardFolder(folder) as source:
        version = Version(read_manifest(folder).tensors, None, read_config(folder))
        return build(version, Place(dtype, DEVICE.type), source, held)


def changed(folder: Path, *names: str) -> Path:
    model = load_model(folder)
    with torch.no_grad():
        for name in names:
            model.get_parameter(name).add_(0.25)
    save_weights(model, folder.parent / "v2", 2, folder, WeightsForm(shard_bytes=200_000))
    return folder.parent / "v2"


def places(model: Transformer) -> dict[str, int]:
    return {name: one.data_ptr() for name, one in model.named_parameters()}


def same_answers(held: Held, folder: Path) -> bool:
    with torch.no_grad():
        own = load_model(folder, device=DEVICE).fuse()
        return torch.equal(held.model(TOKENS.to(DEVICE)), own(TOKENS.to(DEVICE)))


def test_it_is_the_folder_s_model(first: Path) -> None:
    assert same_answers(read(first), first)


@pytest.mark.parametrize(
    ("names", "also"),
    [
        (["model.layers.1.mlp.up_proj.weight"], []),
        # q, k and v are one matrix in memory.
        (["model.layers.0.self_attn.k_proj.weight"], ["q_proj", "v_proj"]),
    ],
)
def test_what_did_not_change_is_shared_and_not_read(first: Path, names: list[str], also: list[str]) -> None:
    served, folder = read(first), changed(first, *names)
    before = {name: one.clone() for name, one in served.model.named_parameters()}
    staged = read(folder, served)
    moved = {name for name, place in places(staged.model).items() if place != places(served.model)[name]}
    assert moved == {*names, *(f"model.layers.0.self_attn.{part}.weight" for part in also)}
    assert same_answers(staged, folder)
    assert same_answers(served, first)
    assert all(torch.equal(one, before[name]) for name, one in served.model.named_parameters())


def test_a_folder_in_another_type_is_converted(first: Path, tmp_path: Path) -> None:
    save_weights(load_model(first), tmp_path / "half", 1, first, WeightsForm(torch.bfloat16))
    held = read(tmp_path / "half")
    for name, one in held.model.named_parameters():
        assert torch.equal(one, load_model(first).get_parameter(name).to(torch.bfloat16).float())
    # The same weights, written otherwise, are other bytes: nothing is shared by mistake.
    assert not set(places(read(first, held).model).values()) & set(places(held.model).values())


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_damaged_tensor_is_refused_by_name(first: Path, tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    entry = next(one for one in read_manifest(first).tensors if one.name == name)
    shutil.copytree(first, tmp_path / "bad")
    flip(tmp_path / "bad" / entry.file, entry.offset + 5)
    with pytest.raises(WeightsError, match=rf"{name}: content differs from the digest"):
        read(tmp_path / "bad")
    # An engine that holds the tensor does not need the damaged bytes.
    assert same_answers(read(tmp_path / "bad", read(first)), first)
