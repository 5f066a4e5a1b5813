# SPDX-License-Identifier: Apache-2.0
"""Importing GGUF: a file written here, with llama.cpp's own layout of the query and key rows, gives the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from whetstone_models.errors import ModelError
from whetstone_models.folder import load_model
from whetstone_models.importing import import_model
from whetstone_models.init import CHAT_TEMPLATE, SPECIALS, _byte_characters, init_model
from whetstone_models.transformer import Transformer

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "model.layers": "blk",
}  # fmt: skip


def write_gguf(model: Transformer, path: Path, **extra: np.ndarray) -> None:
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_layer_norm_rms_eps(config.rms_eps)
    writer.add_rope_freq_base(config.rope.theta)
    writer.add_vocab_size(config.vocab_size)
    _write_tokenizer(writer)
    for name, tensor in (*model.named_parameters(), *((k, torch.from_numpy(v)) for k, v in extra.items())):
        writer.add_tensor(_gguf_name(name), _gguf_rows(name, tensor.detach(), config.head_dim).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_tokenizer(writer: Any) -> None:
    tokens = [*_byte_characters(), *SPECIALS[:-1], "ab"]  # the format wants at least one merge
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * (len(SPECIALS) - 1) + [1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(260)
    writer.add_chat_template(CHAT_TEMPLATE)


def _gguf_name(name: str) -> str:
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _gguf_rows(name: str, tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    """llama.cpp rotates neighbouring elements where Hugging Face rotates halves: rows are interleaved."""
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    return tensor.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2).contiguous()


@pytest.fixture
def model(tmp_path: Path) -> Transformer:
    init_model(tmp_path / "origin", num_hidden_layers=2, num_key_value_heads=2, vocab_size=270)
    return load_model(tmp_path / "origin")


def test_import_gives_the_same_model(model: Transformer, tmp_path: Path) -> None:
    write_gguf(model, tmp_path / "tiny.gguf")
    summary = import_model(tmp_path / "tiny.gguf", tmp_path / "out")
    assert summary["vocab_size"] == 270
    token_ids = torch.randint(0, 262, (2, 17))
    with torch.no_grad():
        assert torch.allclose(load_model(tmp_path / "out")(token_ids), model(token_ids), atol=1e-5)


def test_scaled_frequencies_are_refused(model: Transformer, tmp_path: Path) -> None:
    write_gguf(model, tmp_path / "tiny.gguf", **{"rope_freqs.weight": np.ones(12, np.float32)})
    with pytest.raises(ModelError, match="rotary"):
        import_model(tmp_path / "tiny.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
