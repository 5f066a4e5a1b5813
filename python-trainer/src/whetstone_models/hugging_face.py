# SPDX-License-Identifier: Apache-2.0
"""Models that our transformer does not compute, loaded and saved by the package transformers.

Reading is ours, so that a caller can follow it and a missing or misshapen tensor is an error: transformers would fill
it with random numbers. What transformers renames or joins between file and parameters it undoes when it saves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whetstone_models.errors import ConfigError, WeightsError
from whetstone_models.folder import save_folder, weight_files
from whetstone_models.reading import OnBytes, unheard


def load_causal_lm(
    directory: Path, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu", on_bytes: OnBytes = unheard
) -> Any:
    """A transformers model in evaluation mode (no dropout), code of the folder never run. Raises ModelError."""
    transformers = _transformers()
    config, kind = _configuration(directory, transformers)
    tensors = _tensors(directory, on_bytes)
    # Mismatched shapes are not refused there, so that they are in `info` and refused here, by name.
    options = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, info = kind.from_pretrained(None, config=config, state_dict=tensors, **options)
    except (ImportError, ValueError, RuntimeError, KeyError) as error:
        raise WeightsError("model.safetensors", f"transformers cannot load {directory}: {error}") from error
    _refuse_what_was_not_loaded(info, directory)
    model.config.use_cache = False
    model = model.to(device).eval()
    _refuse_what_sees_later_tokens(model)
    return model


def _refuse_what_was_not_loaded(info: dict[str, Any], directory: Path) -> None:
    for name in sorted(info["missing_keys"]):
        raise WeightsError(name, f"missing from the weights in {directory}")
    for name, found, expected in sorted(info["mismatched_keys"]):
        raise WeightsError(name, f"has shape {list(found)}, expected {list(expected)}")
    for name in sorted(info["unexpected_keys"]):
        raise WeightsError(name, f"unexpected tensor in {directory}; the configuration has no such parameter")
    for message in info["error_msgs"]:
        raise WeightsError("model.safetensors", f"transformers cannot load {directory}: {message}")


def _refuse_what_sees_later_tokens(model: Any) -> None:
    """A model for masked tokens loads here too; its log-probabilities would be of something else."""
    ids_BT = torch.tensor([[0, 1], [0, 2]], device=model.device)
    with torch.no_grad():
        first, second = model(input_ids=ids_BT).logits[:, 0].float()
    if not torch.allclose(first, second, rtol=1e-3, atol=1e-3, equal_nan=True):
        reason = f"{type(model).__name__} sees the tokens after the one that it predicts from; only causal models work"
        raise ConfigError("config.json.architectures", reason)


def save_causal_lm(
    model: Any,
    directory: Path,
    version: int,
    source_dir: Path,
    shard_bytes: int,
    weights: Mapping[str, Tensor] | None = None,
    beside: Callable[[Path], object] | None = None,
) -> None:
    """As `folder.save_weights`, in the model's own type.

    `weights`: in place of the model's own, by the names that they have in memory.
    """

    def write(staging: Path) -> None:
        model.save_pretrained(staging, state_dict=weights, max_shard_size=shard_bytes)
        if beside is not None:
            beside(staging)

    save_folder(directory, version, source_dir, write)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(
            "config.json.architectures",
            "our transformer does not compute this model, and the package transformers, which can, is not installed: "
            f"pip install transformers ({error})",
        ) from error
    # Standard error is for log lines, and what is wrong with a folder we say ourselves.
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def _configuration(directory: Path, transformers: Any) -> tuple[Any, Any]:
    """Its configuration and the class of the model. Raises ConfigError."""
    raw = json.loads((directory / "config.json").read_text())
    if raw.get("quantization_config"):
        raise ConfigError("config.json.quantization_config", "quantised weights are not supported; dequantise first")
    try:
        config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            kind = type(transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False))
    except (ImportError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = str(error).strip().partition("\n")[0]
        raise ConfigError("config.json.model_type", f"neither we nor transformers know this model: {said}") from error
    return config, kind


def _tensors(directory: Path, on_bytes: OnBytes) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for file in weight_files(directory):
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118
                    tensors[name] = opened.get_tensor(name)
                    on_bytes(tensors[name].nbytes)
        except (SafetensorError, OSError) as error:
            raise WeightsError(file.name, f"cannot be read (truncated or not safetensors): {error}") from error
    return tensors
