# SPDX-License-Identifier: Apache-2.0
"""An adapter in memory, and how it is read from a folder in the layout of the package peft.

    adapter_config.json          r, lora_alpha, what it stands beside
    adapter_model.safetensors    base_model.model.<layer>.lora_A.weight [r, in], ….lora_B.weight [out, r]

Source: Hu et al., arXiv 2106.09685: a linear layer W computes W + lora_alpha / r · B·A (rsLoRA: lora_alpha / √r).
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from whetstone_engine.weights.building import Place
from whetstone_models.errors import ModelError, WeightsError
from whetstone_models.transformer import Transformer

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
MAX_RANK = 512
# Fields that would make it compute something else, and their values that do not.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": (None, "none"),
    "use_dora": (None, False),
    "modules_to_save": (None, []),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "fan_in_fan_out": (None, False),
}
_serials = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Adapter:
    """A and scale · B of each layer that it changes, by the layer's name; [r, in] and [out, r].

    `serial`: no other adapter of this process has it, so that what one computed is never taken for another's of the
    same name.
    """

    name: str
    folder: Path
    layers: Mapping[str, tuple[Tensor, Tensor]]
    serial: int = field(default_factory=lambda: next(_serials))


def read_adapter(name: str, folder: Path, model: Transformer, place: Place) -> Adapter:
    """Reads it whole. Raises ModelError for one that is damaged, is of another model, or that this engine lacks."""
    scale = _scale(folder)
    linear = {key: one for key, one in model.model.layers.named_modules(prefix="model.layers") if _is_linear(one)}
    pairs = dict[str, tuple[Tensor, Tensor]]()
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            found = set(file.keys())
            for key in sorted(found):
                layer = _layer_of(key, found)
                if layer not in linear:
                    raise WeightsError(key, "stands beside no linear layer of the model")
                if layer not in pairs:
                    tensors = [file.get_tensor(f"{PREFIX}{layer}{part}") for part in (DOWN, UP)]
                    pairs[layer] = _pair(layer, linear[layer], tensors, scale, place)
    except (SafetensorError, OSError) as error:
        raise WeightsError(WEIGHTS, f"cannot be read: {error}") from error
    if not pairs:
        raise WeightsError(WEIGHTS, "has no tensors")
    return Adapter(name, folder, pairs)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear)


def _scale(folder: Path) -> float:
    try:
        config = json.loads((folder / CONFIG).read_text())
        rank, alpha = config["r"], config["lora_alpha"]
        root = config.get("use_rslora") is True
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(CONFIG, f"cannot be read: {type(error).__name__}: {error}") from error
    if type(rank) is not int or not 1 <= rank <= MAX_RANK:
        raise ModelError(f"{CONFIG}: r", f"must be a number from 1 to {MAX_RANK}, got {rank!r}")
    if type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise ModelError(f"{CONFIG}: lora_alpha", f"must be a finite number, got {alpha!r}")
    for name, plain in _PLAIN.items():
        if config.get(name) not in plain:
            raise ModelError(f"{CONFIG}: {name}", f"{config[name]!r} is not served; only plain LoRA is")
    return alpha / (math.sqrt(rank) if root else rank)


def _layer_of(key: str, found: set[str]) -> str:
    """The layer that a tensor is of. Raises WeightsError for another kind of tensor, and for half a pair."""
    for part, other in ((DOWN, UP), (UP, DOWN)):
        if key.startswith(PREFIX) and key.endswith(part):
            layer = key.removeprefix(PREFIX).removesuffix(part)
            if f"{PREFIX}{layer}{other}" not in found:
                raise WeightsError(key, f"is there without {other.removeprefix('.')}")
            return layer
    raise WeightsError(key, "is no part of a linear layer's adapter")


def _pair(layer: str, base: nn.Module, tensors: list[Tensor], scale: float, place: Place) -> tuple[Tensor, Tensor]:
    assert isinstance(base, nn.Linear)
    down, up = tensors
    rank = down.shape[0] if down.dim() else 0
    if down.shape != (rank, base.in_features) or up.shape != (base.out_features, rank) or not 1 <= rank <= MAX_RANK:
        shapes = f"{list(down.shape)} and {list(up.shape)}"
        expected = f"[r, {base.in_features}] and [{base.out_features}, r]"
        raise WeightsError(layer, f"has A and B of shape {shapes}, expected {expected}")
    if not (torch.isfinite(down).all() and torch.isfinite(up).all()):
        raise WeightsError(layer, "holds a number that is not finite")
    return down.to(place.device, place.dtype), (up.float() * scale).to(place.device, place.dtype)
