# SPDX-License-Identifier: Apache-2.0
"""Folders: loading refuses damage by name and changes nothing; saving is atomic and verifiable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from whetstone_models.config import parse_config
from whetstone_models.errors import ConfigError, ManifestError, WeightsError
from whetstone_models.folder import load_into, load_model, save_weights
from whetstone_models.init import init_model, preset_config
from whetstone_models.manifest import verify_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_model(tmp_path / "model", num_hidden_layers=2)
    return tmp_path / "model"


Tensors = dict[str, torch.Tensor]
NORM, DOWN = "model.norm.weight", "model.layers.1.mlp.down_proj.weight"


def drop(tensors: Tensors) -> None:
    del tensors[DOWN]


def extra(tensors: Tensors) -> None:
    tensors["model.layers.2.mlp.down_proj.weight"] = tensors[DOWN].clone()


def reshape(tensors: Tensors) -> None:
    tensors[NORM] = torch.ones(7)


@pytest.mark.parametrize(
    ("damage", "named"), [(drop, DOWN), (extra, "model.layers.2.mlp.down_proj.weight"), (reshape, NORM)]
)
def test_damaged_weights_are_named_and_nothing_is_loaded(
    folder: Path, damage: Callable[[Tensors], None], named: str
) -> None:
    model = load_model(folder)
    before = {name: p.clone() for name, p in model.named_parameters()}
    tensors = {name: t + 1 for name, t in load_file(folder / "model.safetensors").items()}
    damage(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(WeightsError) as caught:
        load_into(model, folder)
    assert caught.value.field == named
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_truncated_file_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsError, match="truncated"):
        load_model(folder)


def test_sharded_index_and_spare_lm_head(folder: Path) -> None:
    expected = load_model(folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, part in shards.items():
        save_file({n: tensors[n] for n in part}, folder / file)
    (folder / "model.safetensors").unlink()
    weight_map = {n: file for file, part in shards.items() for n in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    actual = load_model(folder)
    assert all(torch.equal(a, b) for a, b in zip(expected.parameters(), actual.parameters(), strict=True))
    (folder / "b.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"b\.safetensors"):
        load_model(folder)


def test_save_round_trip_verifies_and_refuses_tampering(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder).fuse()
    out = tmp_path / "versions" / "7"
    save_weights(model, out, 7, folder)
    assert verify_manifest(out).version == 7
    assert {"config.json", "tokenizer.json", "tokenizer_config.json"} <= {p.name for p in out.iterdir()}
    again = load_model(out)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(FileExistsError):
        save_weights(model, out, 8, folder)
    data = bytearray((out / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (out / "model.safetensors").write_bytes(data)
    with pytest.raises(ManifestError, match=r"model\.safetensors"):
        verify_manifest(out)
    (out / "manifest.json").unlink()
    with pytest.raises(ManifestError, match="incomplete"):
        verify_manifest(out)


def test_failed_save_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("whetstone_models.folder.publish_directory", fail)
    with pytest.raises(OSError, match="disk full"):
        save_weights(load_model(folder), tmp_path / "out" / "1", 1, folder)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "rope_scaling.rope_type"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_parameters.factor"),
        ({"architectures": ["MixtralForCausalLM"]}, "architectures"),
        ({"hidden_size": "many"}, "hidden_size"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"eos_token_id": "x"}, "eos_token_id"),
    ],
)
def test_unsupported_configuration_names_its_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({**preset_config("tiny"), **change})
    assert caught.value.field == f"config.json.{field}"
