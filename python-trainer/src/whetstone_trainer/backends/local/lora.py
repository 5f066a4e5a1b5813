# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters: beside a linear layer W stands alpha / rank · B·A, and only A and B are trained.

Source: Hu et al., arXiv 2106.09685. Initialisation, names and files are those of the package peft, which loads them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.errors import WeightsError
from whetstone_models.products import linear
from whetstone_models.reading import OnBytes
from whetstone_trainer.contract.errors import SettingsError

# A folder of its own: engines take every *.safetensors beside a model's for a part of the model.
FOLDER, WEIGHTS, CONFIG = "adapter", "adapter_model.safetensors", "adapter_config.json"
OWN = ("lora_A", "lora_B")


class LoraLinear(nn.Linear):
    """A linear layer whose weight is frozen. The parameters that it had keep their names."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        # Not that of Linear, which would allocate a second weight.
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = base.in_features, base.out_features, scale
        self.weight, self.bias = base.weight, base.bias
        self.lora_A = nn.Parameter(base.weight.new_zeros(rank, base.in_features))
        self.lora_B = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, input: Tensor) -> Tensor:
        own = linear(linear(input, self.lora_A), self.lora_B)
        return linear(input, self.weight, self.bias) + own * self.scale

    def merged(self) -> Tensor:
        """The weight of a plain layer that computes the same."""
        return self.weight + (self.lora_B @ self.lora_A) * self.scale


class Adapter:
    """The adapter of a policy's module."""

    def __init__(self, module: nn.Module, body: nn.Module, settings: jobs.Lora, seed: int, base: Path) -> None:
        """Freezes `module` and puts new layers into it. `body`: its part without the head. `base`: its folder.

        Raises SettingsError for a layer that is not there, and for a rank that the layers are too small for.
        """
        targets = _targets(module, body, settings.target_modules)
        _require_rank(settings.rank, targets)
        self._rank, self._seed, self._base = settings.rank, seed, base
        self._alpha = settings.alpha if settings.HasField("alpha") else float(settings.rank)
        self._target_modules = sorted(set(settings.target_modules) or _last_parts(targets))
        module.requires_grad_(False)
        self._layers = {name: LoraLinear(one, self._rank, self._alpha / self._rank) for name, one in targets.items()}
        for name, layer in self._layers.items():
            parent, _, child = name.rpartition(".")
            setattr(module.get_submodule(parent), child, layer)
        self._reset()

    def _reset(self) -> None:
        """Version 0: B is zero, so it computes what the model computes. Drawn on the CPU, alike for every device."""
        generator = torch.Generator().manual_seed(self._seed)
        with torch.no_grad():
            for layer in self._layers.values():
                drawn = torch.empty(layer.lora_A.shape)
                layer.lora_A.copy_(nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator))
                layer.lora_B.zero_()

    def merged_into(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The module's weights in the layout of the model without an adapter."""
        kept = {name: one for name, one in weights.items() if name.rpartition(".")[2] not in OWN}
        with torch.no_grad():
            return kept | {f"{name}.weight": layer.merged() for name, layer in self._layers.items()}

    def write(self, directory: Path) -> None:
        """As peft does, in a folder of its own below `directory`."""
        folder = directory / FOLDER
        folder.mkdir()
        tensors = {name: one.detach().cpu().contiguous() for name, one in self.tensors().items()}
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
        (folder / CONFIG).write_text(json.dumps(self._config(), indent=2) + "\n")

    def read(self, directory: Path, on_bytes: OnBytes) -> None:
        """What `write` wrote; of the base's own folder, the start. Raises WeightsError, leaving it unchanged."""
        if directory == self._base:
            return self._reset()
        path, found = directory / FOLDER / WEIGHTS, dict[str, Tensor]()
        try:
            with safe_open(path, framework="pt") as file:
                for name in self.tensors():
                    found[name] = file.get_tensor(name)
                    on_bytes(found[name].nbytes)
        except (SafetensorError, OSError) as error:
            raise WeightsError(f"{FOLDER}/{WEIGHTS}", f"cannot be read: {error}") from error
        for name, one in self.tensors().items():
            if found[name].shape != one.shape:
                raise WeightsError(name, f"has shape {list(found[name].shape)}, expected {list(one.shape)}")
        with torch.no_grad():
            for name, one in self.tensors().items():
                one.copy_(found[name])

    def tensors(self) -> dict[str, nn.Parameter]:
        """A and B of each layer, by the names that peft's file has them under."""
        return {
            f"base_model.model.{name}.{own}.weight": getattr(layer, own)
            for name, layer in self._layers.items()
            for own in OWN
        }

    def _config(self) -> dict[str, object]:
        return {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": str(self._base),
            "r": self._rank,
            "lora_alpha": self._alpha,
            "lora_dropout": 0.0,
            "target_modules": self._target_modules,
            "bias": "none",
            "fan_in_fan_out": False,
            "init_lora_weights": True,
            "inference_mode": True,
        }


def _targets(module: nn.Module, body: nn.Module, asked: Sequence[str]) -> dict[str, nn.Linear]:
    inside = {id(one) for one in body.modules()}
    linear = {name: one for name, one in module.named_modules() if isinstance(one, nn.Linear) and id(one) in inside}
    if not linear:
        raise SettingsError("model.lora", "the model has no linear layer that an adapter could stand beside")
    for index, target in enumerate(asked):
        if not any(_is_meant(name, target) for name in linear):
            there = ", ".join(sorted(_last_parts(linear)))
            raise SettingsError(
                f"model.lora.targetModules[{index}]", f'the model has no linear layer "{target}"; it has {there}'
            )
    return {name: one for name, one in linear.items() if not asked or any(_is_meant(name, each) for each in asked)}


def _is_meant(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def _last_parts(names: Mapping[str, object]) -> set[str]:
    return {name.rpartition(".")[2] for name in names}


def _require_rank(rank: int, targets: Mapping[str, nn.Linear]) -> None:
    for name, layer in targets.items():
        smallest = min(layer.in_features, layer.out_features)
        if rank > smallest:
            reason = f"must be at most {smallest}, the smallest dimension of {name}, got {rank}"
            raise SettingsError("model.lora.rank", reason)
