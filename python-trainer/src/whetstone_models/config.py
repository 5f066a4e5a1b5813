# SPDX-License-Identifier: Apache-2.0
"""Parses config.json of Llama, Qwen2 and Qwen3 models; refuses by name whatever our transformer does not compute.

Needs no torch, so that a folder's configuration can be checked quickly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whetstone_models.errors import ConfigError, UnsupportedModelError

ARCHITECTURES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
# The engine has nothing else; the trainer falls back to transformers.
_ONLY_OURS = (
    f"cannot be served by the PyTorch engine, which knows {', '.join(ARCHITECTURES)}; "
    "with vLLM as engine it can be trained: the trainer loads it with transformers"
)


@dataclass(frozen=True)
class RopeConfig:
    """Rotary embedding. `kind` is default, linear or llama3; the last four are used by llama3 only (factor by both)."""

    theta: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a decoder. Sizes are counts of elements, `max_position` is in tokens."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position: int
    rms_eps: float
    rope: RopeConfig
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    initializer_range: float
    eos_token_ids: tuple[int, ...]

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key (or value) heads together."""
        return self.num_kv_heads * self.head_dim

    @property
    def context_cost(self) -> float:
        """Work that each token of context adds to a token, as a share of that token's own work in the layers.

        Multiplications: attention has 2 · query_size a layer, and a token one for each parameter of its matrices.
        """
        projections = 2 * self.hidden_size * (self.query_size + self.kv_size)
        return 2 * self.query_size / (projections + 3 * self.hidden_size * self.intermediate_size)


def read_config(directory: Path) -> ModelConfig:
    """Reads `directory/config.json`. Raises ConfigError when it is missing, not JSON, or unsupported."""
    path = directory / "config.json"
    try:
        raw = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError("config.json", f"not found in {directory}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("config.json", f"not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError("config.json", "must be a JSON object")
    return parse_config(raw)


def parse_config(raw: dict[str, Any]) -> ModelConfig:
    """Turns the content of a config.json into a ModelConfig. Raises ConfigError naming the field at fault."""
    model_type = _model_type(raw)
    _refuse_unsupported(raw)
    hidden, heads = _positive(raw, "hidden_size"), _positive(raw, "num_attention_heads")
    kv_heads = _positive(raw, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ConfigError("config.json.num_key_value_heads", f"{kv_heads} does not divide {heads} attention heads")
    head_dim = _positive(raw, "head_dim", 128 if model_type == "qwen3" else hidden // heads)
    if head_dim % 2:
        raise ConfigError("config.json.head_dim", f"{head_dim} is odd; rotary embedding needs pairs")
    bias = model_type != "qwen2" and bool(raw.get("attention_bias", False))
    return ModelConfig(
        model_type=model_type,
        vocab_size=_positive(raw, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_positive(raw, "intermediate_size"),
        num_layers=_positive(raw, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        max_position=_positive(raw, "max_position_embeddings"),
        rms_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope=_rope(raw),
        tied=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=bias or model_type == "qwen2",
        output_bias=bias,
        mlp_bias=model_type == "llama" and bool(raw.get("mlp_bias", False)),
        qk_norm=model_type == "qwen3",
        initializer_range=float(raw.get("initializer_range", 0.02)),
        eos_token_ids=_token_ids(raw.get("eos_token_id")),
    )


def _model_type(raw: dict[str, Any]) -> str:
    names = raw.get("architectures") or []
    if names:
        if len(names) != 1 or names[0] not in ARCHITECTURES:
            raise UnsupportedModelError("config.json.architectures", f"{names} {_ONLY_OURS}")
        return ARCHITECTURES[names[0]]
    if raw.get("model_type") not in ARCHITECTURES.values():
        raise UnsupportedModelError("config.json.model_type", f"{raw.get('model_type')!r} {_ONLY_OURS}")
    return str(raw["model_type"])


def _refuse_unsupported(raw: dict[str, Any]) -> None:
    """Every setting that would change the computation and is not implemented is an error, never ignored."""
    if raw.get("hidden_act", "silu") != "silu":
        raise UnsupportedModelError("config.json.hidden_act", f"{raw['hidden_act']!r} is not supported, only 'silu'")
    if raw.get("use_sliding_window"):
        raise UnsupportedModelError("config.json.use_sliding_window", "sliding-window attention is not supported")
    if any(kind != "full_attention" for kind in raw.get("layer_types") or []):
        raise UnsupportedModelError("config.json.layer_types", "only full_attention layers are supported")
    if raw.get("quantization_config"):
        raise ConfigError("config.json.quantization_config", "quantised weights are not supported; dequantise first")
    for name in ("pretraining_tp", "partial_rotary_factor"):
        if raw.get(name, 1) not in (1, None):
            raise ConfigError(f"config.json.{name}", f"{raw[name]} is not supported, only 1")


def _rope(raw: dict[str, Any]) -> RopeConfig:
    """Reads both spellings: `rope_theta` + `rope_scaling` (transformers 4) and `rope_parameters` (transformers 5)."""
    name = "rope_parameters" if raw.get("rope_parameters") else "rope_scaling"
    scaling: dict[str, Any] = raw.get(name) or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        raise UnsupportedModelError(
            f"config.json.{name}.rope_type", f"{kind!r} is not supported (default, linear, llama3)"
        )
    if scaling.get("partial_rotary_factor", 1) not in (1, None):
        raise UnsupportedModelError(f"config.json.{name}.partial_rotary_factor", "only 1 is supported")
    theta = float(scaling.get("rope_theta", raw.get("rope_theta", 10_000.0)))
    needed = {"default": (), "linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}[kind]
    for key in needed:
        if not isinstance(scaling.get(key), int | float):
            raise ConfigError(f"config.json.{name}.{key}", f"a number is required for rope type {kind!r}")
    original = scaling.get("original_max_position_embeddings", raw.get("max_position_embeddings"))
    return RopeConfig(
        theta=theta,
        kind=kind,
        factor=float(scaling.get("factor", 1.0)),
        low_freq_factor=float(scaling.get("low_freq_factor", 1.0)),
        high_freq_factor=float(scaling.get("high_freq_factor", 4.0)),
        original_max_position=int(original or 8192),
    )


def _positive(raw: dict[str, Any], name: str, default: int | None = None) -> int:
    value = raw.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"config.json.{name}", f"must be a positive integer, got {value!r}")
    return value


def _token_ids(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    ids: list[object] = value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) for token in ids):
        raise ConfigError("config.json.eos_token_id", f"must be an integer or a list of integers, got {value!r}")
    return tuple(token for token in ids if isinstance(token, int))
