# SPDX-License-Identifier: Apache-2.0
"""Makes a small random model with its own byte-level tokenizer and chat template: what the quick start trains.

The same preset, seed and sizes give the same bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whetstone_models.config import parse_config
from whetstone_models.errors import ConfigError
from whetstone_models.folder import SINGLE, _portable
from whetstone_models.manifest import publish_directory, staging_directory
from whetstone_models.transformer import Transformer

SPECIALS = ("<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|end|>", "<|pad|>")
EOS, PAD = 256 + SPECIALS.index("<|end|>"), 256 + SPECIALS.index("<|pad|>")
VOCAB = 256 + len(SPECIALS)

# As short as a template can be: every token costs a tiny model time. A turn ends where the next marker begins; only
# the assistant closes its own turn, because that is the token it must learn to sample in order to stop.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "<|{{ message['role'] }}|>{{ message['content'] }}"
    "{%- if message['role'] == 'assistant' -%}<|end|>{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 288},
    "small": {"hidden_size": 320, "num_hidden_layers": 8, "num_attention_heads": 5, "intermediate_size": 864},
    "llama-135m": {
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "intermediate_size": 1536,
        "max_position_embeddings": 8192,
        "rope_theta": 100_000.0,
        "vocab_size": 49_152,
    },
}


def init_model(directory: Path, preset: str = "tiny", seed: int = 0, **overrides: Any) -> None:
    """Writes a new model folder. `overrides` replace single fields of config.json, e.g. `vocab_size=512`.

    Raises FileExistsError if `directory` exists, ConfigError for an unknown preset or an impossible shape.
    """
    raw = preset_config(preset, **overrides)
    config = parse_config(raw)
    if config.vocab_size < VOCAB:
        raise ConfigError("config.json.vocab_size", f"{config.vocab_size} is less than the tokenizer's {VOCAB}")
    if not 0 < config.initializer_range <= 1:
        reason = f"{config.initializer_range:g} must be above 0 and at most 1"
        raise ConfigError("config.json.initializer_range", reason)
    model = Transformer(config)
    init_weights(model, seed)
    from safetensors.torch import save_file

    with staging_directory(directory) as staging:
        save_file({n: _portable(p, None) for n, p in model.named_parameters()}, staging / SINGLE, {"format": "pt"})
        for name, content in _text_files(raw).items():
            (staging / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        publish_directory(staging, directory, version=0)


def preset_config(preset: str, **overrides: Any) -> dict[str, Any]:
    """The config.json of a preset. Raises ConfigError for a name that is not one."""
    if preset not in PRESETS:
        raise ConfigError("preset", f"{preset!r} is unknown; known: {sorted(PRESETS)}")
    base = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "dtype": "float32",
    }
    shape = {"num_key_value_heads": PRESETS[preset]["num_attention_heads"], **PRESETS[preset]}
    return {**base, **shape, **{name: value for name, value in overrides.items() if value is not None}}


def init_weights(model: Transformer, seed: int) -> None:
    """Normal(0, initializer_range) matrices and zero biases, as transformers does; norms keep their ones."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.normal_(0.0, model.config.initializer_range, generator=generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.zero_()


def _text_files(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "config.json": raw,
        "generation_config.json": {"eos_token_id": EOS, "pad_token_id": PAD},
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|end|>",
            "pad_token": "<|pad|>",
            "model_max_length": raw["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }


def _tokenizer() -> dict[str, Any]:
    """Token i is byte i; specials follow. Any text can be written, nothing is ever unknown."""
    vocabulary = {character: byte for byte, character in enumerate(_byte_characters())}
    specials = [
        {"id": 256 + index, "content": content, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False, "special": True}
        for index, content in enumerate(SPECIALS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": specials,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
        | {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []},
    }


def _byte_characters() -> list[str]:
    """GPT-2's printable stand-in for each byte, which the ByteLevel pre-tokenizer produces."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    stand_ins = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(stand_ins)) for byte in range(256)]
