# SPDX-License-Identifier: Apache-2.0
"""Reads and writes model folders in the Hugging Face layout.

Loading checks every name and shape before the first byte of a tensor is copied, so a bad folder changes nothing.
Saving builds the folder under a temporary name and writes manifest.json last: a folder with a manifest is complete.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from whetstone_models.config import ModelConfig, read_config
from whetstone_models.errors import WeightsError
from whetstone_models.manifest import publish_directory, staging_directory
from whetstone_models.reading import OnBytes, unheard
from whetstone_models.transformer import Transformer

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
COPIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
_UNUSED_SUFFIXES = ("rotary_emb.inv_freq",)


@dataclass(frozen=True)
class WeightsForm:
    """How weights are written: their type (None keeps it), and the most bytes of tensors in a file."""

    dtype: torch.dtype | None = None
    shard_bytes: int = 1 << 30


AS_THEY_ARE = WeightsForm()


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a folder with this configuration must hold."""
    with torch.device("meta"):
        model = Transformer(config)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def load_model(
    directory: Path,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    config: ModelConfig | None = None,
    on_bytes: OnBytes = unheard,
) -> Transformer:
    """A new model with the folder's weights. Raises ConfigError or WeightsError before anything is allocated.

    `config` replaces the folder's config.json, which a folder of bare weights may lack.
    """
    config = config or read_config(directory)
    files = check_weights(directory, config)
    with torch.device("meta"):
        model = Transformer(config)
    model = model.to(dtype=dtype).to_empty(device=device)
    _read_tensors(files, model, on_bytes)
    return model


def load_into(model: Transformer, directory: Path, on_bytes: OnBytes = unheard) -> None:
    """Copies the folder's weights into `model`, in place. Raises WeightsError, leaving it unchanged, otherwise."""
    _read_tensors(check_weights(directory, model.config), model, on_bytes)


def _read_tensors(files: Mapping[Path, list[str]], model: Transformer, on_bytes: OnBytes) -> None:
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for file, names in files.items():
            with safe_open(file, framework="pt") as tensors:
                for name in names:
                    tensor = tensors.get_tensor(name)
                    parameters[name].copy_(tensor)
                    on_bytes(tensor.nbytes)


def keep_finer(model: Transformer, directory: Path) -> None:
    """As `load_into`; but a weight that, written in the folder's type, is what the folder has stays as it is.

    So a model goes on in float32 from a version of its own that it published in bfloat16.
    """
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for file, names in check_weights(directory, model.config).items():
            with safe_open(file, framework="pt") as tensors:
                for name in names:
                    written, own = tensors.get_tensor(name).to(parameters[name].device), parameters[name]
                    own.copy_(torch.where(own.to(written.dtype) == written, own, written.to(own.dtype)))


def check_weights(directory: Path, config: ModelConfig) -> dict[Path, list[str]]:
    """Which tensors to read from which file. Raises WeightsError for a missing, extra, misshapen or truncated one."""
    found = [(name, shape, file.name) for file in weight_files(directory) for name, shape in _tensor_shapes(file)]
    by_file: dict[Path, list[str]] = {}
    for name, file in fitting(found, config, str(directory)).items():
        by_file.setdefault(directory / file, []).append(name)
    return by_file


def fitting(tensors: Iterable[tuple[str, tuple[int, ...], str]], config: ModelConfig, where: str) -> dict[str, str]:
    """File by name of the tensors that the model has, from name, shape and file of those that are there.

    Raises WeightsError for a missing, extra or misshapen one; `where` they were looked for.
    """
    expected, found = expected_shapes(config), dict[str, str]()
    for name, shape, file in tensors:
        if _is_unused(name, config):
            continue
        if name not in expected:
            raise WeightsError(name, f"unexpected tensor in {file}; the configuration has no such parameter")
        if name in found:
            raise WeightsError(name, f"stored twice, in {found[name]} and {file}")
        if shape != expected[name]:
            raise WeightsError(name, f"has shape {list(shape)}, expected {list(expected[name])}")
        found[name] = file
    for name in expected:
        if name not in found:
            raise WeightsError(name, f"missing from the weights in {where}")
    return found


def has_weights(directory: Path) -> bool:
    """Whether there are weights in a folder, in one file or several."""
    return (directory / SINGLE).is_file() or (directory / INDEX).is_file()


def weight_files(directory: Path) -> list[Path]:
    """The folder's safetensors files: the single one, or those that the index names."""
    if (directory / SINGLE).is_file():
        return [directory / SINGLE]
    if not (directory / INDEX).is_file():
        raise WeightsError(SINGLE, f"not found in {directory}, and there is no {INDEX} either")
    try:
        names = sorted(set(json.loads((directory / INDEX).read_text())["weight_map"].values()))
    except (json.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise WeightsError(INDEX, f"is not a valid index: {error!r}") from error
    for name in names:
        if Path(name).name != name or not (directory / name).is_file():
            raise WeightsError(name, f"named by {INDEX} but not found in {directory}")
    return [directory / name for name in names]


def _tensor_shapes(file: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Shapes from the header. safetensors itself checks that the file is as long as the header says."""
    try:
        with safe_open(file, framework="pt") as tensors:
            return [(name, tuple(tensors.get_slice(name).get_shape())) for name in tensors.keys()]  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(file.name, f"cannot be read (truncated or not safetensors): {error}") from error


def _is_unused(name: str, config: ModelConfig) -> bool:
    """A tied lm_head is a second copy of the embedding; old checkpoints carry rotary tables as buffers."""
    return (config.tied and name == "lm_head.weight") or name.endswith(_UNUSED_SUFFIXES)


def save_weights(
    weights: Transformer | Mapping[str, Tensor],
    directory: Path,
    version: int,
    source_dir: Path,
    form: WeightsForm = AS_THEY_ARE,
    beside: Callable[[Path], object] | None = None,
) -> None:
    """Writes a complete folder: weights, configuration and tokenizer of `source_dir`, and last its manifest.

    `version` is the policy version, 0 for the starting model. `beside` puts further files into the folder that it is
    given. Raises FileExistsError when `directory` exists: a version is immutable.
    """
    state = dict(weights.named_parameters()) if isinstance(weights, Transformer) else weights

    def write(staging: Path) -> None:
        _write_shards(state, staging, form)
        if beside is not None:
            beside(staging)

    save_folder(directory, version, source_dir, write)


def write_bare(weights: Transformer | Mapping[str, Tensor], directory: Path) -> None:
    """The weights alone, as they are, into a folder that is there."""
    state = dict(weights.named_parameters()) if isinstance(weights, Transformer) else weights
    _write_shards(state, directory, AS_THEY_ARE)


def _write_shards(state: Mapping[str, Tensor], staging: Path, form: WeightsForm) -> None:
    """One file, or several with the index that names them. Only one shard at a time is copied."""
    sizes = {name: tensor.numel() * (form.dtype or tensor.dtype).itemsize for name, tensor in state.items()}
    shards = split(sizes, form.shard_bytes)
    weight_map: dict[str, str] = {}
    for index, names in enumerate(shards):
        file = SINGLE if len(shards) == 1 else f"model-{index + 1:05d}-of-{len(shards):05d}.safetensors"
        tensors = {name: _portable(state[name], form.dtype) for name in names}
        save_file(tensors, staging / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    if len(shards) > 1:
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
        (staging / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def split(sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """Names of tensors in files of at most `most` bytes, in order; one that is larger has a file for itself."""
    shards, held = [list[str]()], 0
    for name, size in sizes.items():
        if shards[-1] and held + size > most:
            shards.append([])
            held = 0
        shards[-1].append(name)
        held += size
    return shards


def save_folder(directory: Path, version: int, source_dir: Path, write: Callable[[Path], object]) -> None:
    """What `write` puts into the folder that it is given, configuration and tokenizer of `source_dir`, a manifest."""
    with staging_directory(directory) as staging:
        write(staging)
        for name in COPIED:
            if (source_dir / name).is_file():
                shutil.copyfile(source_dir / name, staging / name)
        publish_directory(staging, directory, version)


def _portable(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A contiguous CPU copy: parameters of a fused model are views of one buffer, which safetensors refuses."""
    return tensor.detach().to(device="cpu", dtype=dtype or tensor.dtype, copy=True).contiguous()
