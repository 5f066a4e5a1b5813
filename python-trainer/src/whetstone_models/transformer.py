# SPDX-License-Identifier: Apache-2.0
"""A compact decoder for Llama, Qwen2 and Qwen3 whose parameters carry the Hugging Face names.

One forward serves the trainer (padded batches, autograd) and the engine (packed tokens over a KV cache): a layer
computes queries, keys and values and leaves attention to an `Attend`, which knows how sequences are laid out.

Modules inside call each other's `forward` directly: nn.Module's call protocol took 7 % of a one-token step of the
tiny model. Hooks on them therefore do not fire.

Shape suffixes: B sequences, T positions, N packed tokens, H hidden; `...` is either [B, T] or [N].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from whetstone_models.config import ModelConfig, RopeConfig
from whetstone_models.products import Linear, linear


class Attend(Protocol):
    """Attention over whatever context the caller keeps. Queries are [..., heads, head_dim], already rotated."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Stores key and value (which may cover more positions than query), returns attention shaped like query."""
        ...


class RMSNorm(nn.Module):
    """x / rms(x) · weight over the last dimension, in float32 whatever the input type."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32 or x.is_cuda:  # of a GPU it is one kernel, which computes in float32
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with optional biases (Qwen2) and per-head norms of queries and keys (Qwen3)."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.config = layer, config
        hidden, bias = config.hidden_size, config.qkv_bias
        self.q_proj = Linear(hidden, config.query_size, bias=bias)
        self.k_proj = Linear(hidden, config.kv_size, bias=bias)
        self.v_proj = Linear(hidden, config.kv_size, bias=bias)
        self.o_proj = Linear(config.query_size, hidden, bias=config.output_bias)
        self.q_norm = RMSNorm(config.head_dim, config.rms_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.rms_eps) if config.qk_norm else None
        self.fused: tuple[Tensor, Tensor | None] | None = None

    def forward(self, x: Tensor, rope: Rope, attend: Attend, rows: Tensor | None) -> Tensor:
        """x [..., H] → [..., H]. With `rows`, only those tokens are queried; all keys and values are kept."""
        query, key, value = self._project(x, rope, rows)
        return self.o_proj.forward(attend(self.layer, query, key, value).flatten(-2))

    def _project(self, x: Tensor, rope: Rope, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
        if self.fused is not None and rows is None and self.q_norm is None:
            # One product, and one rotation for queries and keys together: they are neighbours in the fused output.
            joint = F.linear(x, *self.fused).unflatten(-1, (heads + 2 * kv_heads, dim))
            rotated = rope(joint[..., : heads + kv_heads, :])
            return rotated[..., :heads, :], rotated[..., heads:, :], joint[..., heads + kv_heads :, :]
        asked = x if rows is None else x[rows]
        query = self.q_proj(asked).unflatten(-1, (heads, dim))
        key, value = self.k_proj(x).unflatten(-1, (kv_heads, dim)), self.v_proj(x).unflatten(-1, (kv_heads, dim))
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        return (rope if rows is None else rope.rows(rows))(query), rope(key), value

    def fuse(self) -> None:
        """Moves q, k and v into one matrix; the separate parameters become views of it. For inference only."""
        parts = (self.q_proj, self.k_proj, self.v_proj)
        bias = torch.cat([part.bias.data for part in parts]) if self.config.qkv_bias else None
        self._hold(torch.cat([part.weight.data for part in parts]), bias)

    def make_room(self, dtype: torch.dtype, device: torch.device | str) -> None:
        """As `fuse`, of parameters that have no memory yet and are filled afterwards."""
        rows = sum(part.out_features for part in (self.q_proj, self.k_proj, self.v_proj))
        bias = torch.empty(rows, dtype=dtype, device=device) if self.config.qkv_bias else None
        self._hold(torch.empty(rows, self.config.hidden_size, dtype=dtype, device=device), bias)

    def _hold(self, weight: Tensor, bias: Tensor | None) -> None:
        parts = (self.q_proj, self.k_proj, self.v_proj)
        sizes = [part.out_features for part in parts]
        for index, part in enumerate(parts):
            part.weight = nn.Parameter(weight.split(sizes)[index], requires_grad=False)
            if bias is not None:
                part.bias = nn.Parameter(bias.split(sizes)[index], requires_grad=False)
        self.fused = (weight, bias)


class MLP(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = Linear(hidden, inner, bias=bias)
        self.up_proj = Linear(hidden, inner, bias=bias)
        self.down_proj = Linear(inner, hidden, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj.forward(F.silu(self.gate_proj.forward(x)) * self.up_proj.forward(x))


class Layer(nn.Module):
    """One decoder block: attention and MLP, each behind a norm and added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_eps)

    def forward(self, x: Tensor, rope: Rope, attend: Attend, rows: Tensor | None = None) -> Tensor:
        residual = x if rows is None else x[rows]
        x = residual + self.self_attn.forward(for_products(self.input_layernorm.forward(x)), rope, attend, rows)
        return x + self.mlp.forward(for_products(self.post_attention_layernorm.forward(x)))


def for_products(x: Tensor) -> Tensor:
    """In the type of autocast's matrix products, where that is on: else each product of `x` casts it anew."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


class Decoder(nn.Module):
    """Embedding, layers and final norm: the `model.` part of a Hugging Face checkpoint."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # Whether the pass back computes the inside of a layer once more rather than keep it: less memory, more time.
        self.recompute = False
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_eps)


class Transformer(nn.Module):
    """A causal language model. Parameters are named as in the checkpoint (no lm_head when embeddings are tied)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = None if config.tied else Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, token_ids_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
        """Logits [B, T, vocab] of right-padded sequences; what stands at padded positions has no meaning.

        Right padding needs no mask: causal attention never looks to the right. `positions_BT` defaults to 0…T-1.
        """
        return self.logits(self.hidden(token_ids_BT, positions_BT))

    def hidden(self, token_ids_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
        """Final hidden states [B, T, H]; with `logits` the caller may compute logits only where it needs them."""
        if positions_BT is None:
            positions_BT = torch.arange(token_ids_BT.shape[1], device=token_ids_BT.device)
        return self.run(token_ids_BT, positions_BT, causal_attend)

    def run(self, token_ids: Tensor, positions: Tensor, attend: Attend, rows_S: Tensor | None = None) -> Tensor:
        """Final hidden states for any layout that `attend` understands; token_ids and positions are [...].

        With `rows_S` (packed layout [N] only) the result is [S, H]: the last layer computes just those tokens,
        which for short answers saves a quarter of the work of a three-layer model and changes nothing else.
        """
        x = self.model.embed_tokens(token_ids)
        rope = Rope.at(positions, self.config, x.dtype)
        last = len(self.model.layers) - 1
        for index, layer in enumerate(self.model.layers):
            given = (x, rope, attend, rows_S if index == last else None)
            again = self.model.recompute and torch.is_grad_enabled()
            x = checkpoint(layer.forward, *given, use_reentrant=False) if again else layer.forward(*given)
        return self.model.norm.forward(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., H] → [..., vocab]."""
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        return linear(hidden, head.weight)

    def fuse(self) -> Transformer:
        """Joins the q, k, v matrices of every layer for inference; parameters keep their names as views."""
        for layer in self.model.layers:
            assert isinstance(layer, Layer)
            layer.self_attn.fuse()
        return self


class Rope:
    """Rotary embedding at fixed positions. cos and sin are [..., 1, head_dim]; the sign of the rotation is in sin."""

    def __init__(self, cos: Tensor, sin: Tensor) -> None:
        self.cos, self.sin = cos, sin

    def __call__(self, x: Tensor) -> Tensor:
        """Rotates [..., heads, head_dim]; the pair of element i is i + head_dim/2, so swapping halves is a roll."""
        return torch.addcmul(x * self.cos, x.roll(x.shape[-1] // 2, -1), self.sin)

    def rows(self, rows_S: Tensor) -> Rope:
        """The same rotation for a subset of packed tokens."""
        return Rope(self.cos[rows_S], self.sin[rows_S])

    @staticmethod
    def at(positions: Tensor, config: ModelConfig, dtype: torch.dtype) -> Rope:
        """Angles are computed in float32, as Hugging Face does, then cast."""
        frequencies = _frequencies_on(positions.device, config.rope, config.head_dim)
        angles = positions.float().unsqueeze(-1) * frequencies
        cos, sin = angles.cos(), angles.sin()
        cos, sin = torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
        return Rope(cos.unsqueeze(-2).to(dtype), sin.unsqueeze(-2).to(dtype))


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _frequencies_on(device: torch.device, rope: RopeConfig, head_dim: int) -> Tensor:
    """Copied to a device once: a step that is recorded there may not wait for the host."""
    return rope_frequencies(rope, head_dim).to(device)


def rope_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Inverse frequencies [head_dim / 2], float32.

    Source: transformers modeling_rope_utils; llama3 keeps short wavelengths, divides long ones by `factor`, and
    blends in between.
    """
    inverse = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if rope.kind == "linear":
        return inverse / rope.factor
    if rope.kind == "default":
        return inverse
    wavelength = 2 * math.pi / inverse
    low, high = rope.original_max_position / rope.low_freq_factor, rope.original_max_position / rope.high_freq_factor
    smooth = (rope.original_max_position / wavelength - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    blended = (1 - smooth) * inverse / rope.factor + smooth * inverse
    scaled = torch.where(wavelength > low, inverse / rope.factor, inverse)
    return torch.where((wavelength <= low) & (wavelength >= high), blended, scaled)


def causal_attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention within padded sequences [B, T, heads, head_dim] (the trainer's layout)."""
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    grouped = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
    return out.transpose(1, 2)
