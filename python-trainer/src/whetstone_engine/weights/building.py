# SPDX-License-Identifier: Apache-2.0
"""A model in memory from the tensors that a manifest lists; those that are served already are shared, not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from whetstone_engine.weights.sums import block_sums
from whetstone_models.config import ModelConfig
from whetstone_models.errors import WeightsError
from whetstone_models.folder import fitting
from whetstone_models.tensors import Blocks, TensorEntry
from whetstone_models.transformer import Attention, Layer, Transformer

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


class TensorSource(Protocol):
    """Where the bytes of tensors come from."""

    def read(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        """Fills `view`, which is as long as the tensor. Raises WeightsError unless its bytes are the entry's.

        Returns the sums of its blocks; None: they were not needed.
        """
        ...


@dataclass(frozen=True)
class Held:
    """A model that is never written to, with type and digest of its tensors by name; those not named are not known."""

    model: Transformer
    digests: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    # Of the same tensors; None: another version cannot be compared with it.
    blocks: Blocks | None = None
    # Of these blocks, when the tensor was checked; not of tensors that are stored in another type, or on a GPU.
    sums: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])


@dataclass(frozen=True)
class Place:
    """What an engine computes in."""

    dtype: torch.dtype
    device: torch.device | str


def tensors_to_read(entries: tuple[TensorEntry, ...], config: ModelConfig, held: Held | None) -> list[TensorEntry]:
    """Of a version, in the order of their bytes. Raises WeightsError where they are not those of the configuration."""
    names = fitting([(entry.name, entry.shape, entry.file) for entry in entries], config, "manifest.json")
    for entry in entries:
        if entry.name in names and entry.dtype not in DTYPES:
            raise WeightsError(entry.name, f"is stored as {entry.dtype}; engines read {sorted(DTYPES)}")
    return [entry for entry in entries if entry.name in names and not _is_held(entry, held)]


@dataclass(frozen=True)
class Version:
    """What is to be built."""

    entries: tuple[TensorEntry, ...]
    blocks: Blocks | None
    config: ModelConfig


def build(version: Version, place: Place, source: TensorSource, held: Held | None) -> Held:
    """The version, in memory. Raises WeightsError; what is served is not touched."""
    entries, config = version.entries, version.config
    read = tensors_to_read(entries, config, held)
    unread = {entry.name for entry in entries} - {entry.name for entry in read}
    shared = dict(held.model.named_parameters()) if held else {}
    shared = {name: one for name, one in shared.items() if name in unread}
    with torch.device("meta"):
        model = Transformer(config)
    for index, layer in enumerate(model.model.layers):
        assert isinstance(layer, Layer)
        _place_attention(layer.self_attn, f"model.layers.{index}.self_attn.", place, shared, held)
    for module_name, module in model.named_modules():
        for name, one in list(module.named_parameters(recurse=False)):
            if one.is_meta:
                whole = shared.get(f"{module_name}.{name}")
                setattr(module, name, whole if whole is not None else _empty(one.shape, place))
    parameters = dict(model.named_parameters())
    sums = {name: held.sums[name] for name in unread if held is not None and name in held.sums}
    for entry in read:
        _fill(parameters[entry.name], entry, source, version.blocks, sums)
    return Held(model.eval(), {entry.name: (entry.dtype, entry.sha256) for entry in entries}, version.blocks, sums)


def _is_held(entry: TensorEntry, held: Held | None) -> bool:
    return (
        held is not None
        and held.digests.get(entry.name) == (entry.dtype, entry.sha256)
        and tuple(held.model.get_parameter(entry.name).shape) == entry.shape
    )


def _place_attention(
    attention: Attention, prefix: str, place: Place, shared: Mapping[str, nn.Parameter], held: Held | None
) -> None:
    """q, k and v are views of one matrix: it is shared as a whole or not at all."""
    names = [f"{part}.{name}" for part in PROJECTIONS for name, _ in getattr(attention, part).named_parameters()]
    if held is not None and all(prefix + name in shared for name in names):
        other = held.model.get_submodule(prefix.removesuffix("."))
        assert isinstance(other, Attention)
        for part in PROJECTIONS:
            for name, _ in list(getattr(attention, part).named_parameters()):
                setattr(getattr(attention, part), name, shared[f"{prefix}{part}.{name}"])
        attention.fused = other.fused
        return
    attention.make_room(place.dtype, place.device)
    with torch.no_grad():
        for name in names:
            if prefix + name in shared:
                attention.get_parameter(name).copy_(shared[prefix + name])


def _empty(shape: torch.Size, place: Place) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=place.dtype, device=place.device), requires_grad=False)


def _fill(
    parameter: Tensor, entry: TensorEntry, source: TensorSource, blocks: Blocks | None, sums: dict[str, list[int]]
) -> None:
    """Where the bytes are what the engine computes in, they are read to where they stay, and summed."""
    stored = DTYPES[entry.dtype]
    if parameter.device.type == "cpu" and parameter.dtype == stored and parameter.is_contiguous():
        view = bytes_of(parameter.data)
        found = source.read(entry, view)
        if blocks is not None:
            sums[entry.name] = block_sums(view, blocks.bytes) if found is None else found
        return
    buffer = torch.empty(entry.shape, dtype=stored)
    source.read(entry, bytes_of(buffer))
    with torch.no_grad():
        parameter.copy_(buffer)


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data.cast("B")
