# SPDX-License-Identifier: Apache-2.0
"""The transformer equals Hugging Face's for every architecture, in both layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from whetstone_models.config import read_config
from whetstone_models.folder import load_model
from whetstone_models.transformer import causal_attend

BASE: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 500.0,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
    "llama-bias-untied": ("Llama", {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
    "llama-head-dim": ("Llama", {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}),
    "llama3-rope": ("Llama", {"rope_parameters": LLAMA3}),
    "linear-rope": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 24, "tie_word_embeddings": False}),
}


def hugging_face(name: str, directory: Path) -> Any:
    """A random transformers model of that kind, saved to `directory`; biases and norms random too."""
    import transformers

    family, extra = CASES[name]
    config = getattr(transformers, f"{family}Config")(**{**BASE, **extra})
    torch.manual_seed(3)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(directory)
    return model


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(name: str, tmp_path: Path) -> None:
    theirs = hugging_face(name, tmp_path)
    ours = load_model(tmp_path)
    token_ids_BT = torch.randint(0, BASE["vocab_size"], (3, 29))
    with torch.no_grad():
        expected, actual = theirs(token_ids_BT).logits, ours(token_ids_BT)
        fused = ours.fuse()(token_ids_BT)
    assert (actual - expected).abs().max() < 1e-5
    assert (fused - expected).abs().max() < 1e-5
    assert {n for n, _ in ours.named_parameters()} == {
        n for n, _ in theirs.named_parameters() if not (ours.config.tied and n == "lm_head.weight")
    }


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_packed_layout_with_chosen_rows_equals_padded(name: str, tmp_path: Path) -> None:
    hugging_face(name, tmp_path)
    model = load_model(tmp_path).fuse()
    token_ids_T = torch.randint(0, BASE["vocab_size"], (12,))
    rows_S = torch.tensor([11])

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.shape[0] == key.shape[0]:
            return causal_attend(layer, query[None], key[None], value[None])[0]
        full = torch.zeros(key.shape[0], *query.shape[1:])
        full[rows_S] = query
        return causal_attend(layer, full[None], key[None], value[None])[0][rows_S]

    with torch.no_grad():
        expected = model(token_ids_T[None])[0, 11]
        actual = model.logits(model.run(token_ids_T, torch.arange(12), attend, rows_S))[0]
    assert (actual - expected).abs().max() < 1e-5


def test_right_padding_changes_neither_logits_nor_gradient(tmp_path: Path) -> None:
    hugging_face("qwen3", tmp_path)
    model = load_model(tmp_path)
    short = torch.randint(0, BASE["vocab_size"], (1, 9))
    padded = torch.cat((short, torch.zeros(1, 5, dtype=torch.long)), 1)
    gradients = []
    for batch in (short, padded):
        model.zero_grad()
        model(batch)[:, :9].logsumexp(-1).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert torch.allclose(gradients[0], gradients[1], atol=1e-4)


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    hugging_face("llama", tmp_path)
    token_ids = torch.randint(0, BASE["vocab_size"], (2, 9))
    with torch.no_grad():
        wide, narrow = load_model(tmp_path)(token_ids), load_model(tmp_path, torch.bfloat16)(token_ids)
    assert narrow.dtype == torch.bfloat16
    assert (wide - narrow.float()).abs().max() < 0.15 * wide.abs().max()
    assert read_config(tmp_path).num_kv_heads == 2
