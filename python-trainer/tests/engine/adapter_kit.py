# SPDX-License-Identifier: Apache-2.0
"""Adapters of random numbers in the layout of peft, and models that they were added to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from whetstone_models.folder import load_model
from whetstone_models.transformer import Transformer

RANK, ALPHA = 4, 8.0


def write_adapter(model_folder: Path, folder: Path, seed: int, parts: tuple[str, ...] = (), **config: Any) -> Path:
    """An adapter of the model's linear layers, or of those whose last names are among `parts`."""
    draw, tensors = torch.Generator().manual_seed(seed), dict[str, Tensor]()
    for name, module in load_model(model_folder).model.layers.named_modules(prefix="model.layers"):
        if isinstance(module, nn.Linear) and (not parts or name.rpartition(".")[2] in parts):
            sizes = ("lora_A", (RANK, module.in_features)), ("lora_B", (module.out_features, RANK))
            for own, shape in sizes:
                tensors[f"base_model.model.{name}.{own}.weight"] = 0.1 * torch.randn(shape, generator=draw)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    stated = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(stated))
    return folder


def merged(model_folder: Path, tensors: dict[str, Tensor]) -> Transformer:
    """A model whose weights have the adapter in them: W + alpha / rank · B·A."""
    model = load_model(model_folder).requires_grad_(False)
    for name, module in model.named_modules():
        up = tensors.get(f"base_model.model.{name}.lora_B.weight")
        if up is not None:
            assert isinstance(module, nn.Linear)
            module.weight += ALPHA / RANK * up @ tensors[f"base_model.model.{name}.lora_A.weight"]
    return model
