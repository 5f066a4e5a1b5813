# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""Passes that several ranks compute together: each has some of the tokens, and in attention all of them for some heads.

verl cuts a pass, and exchanges tokens for heads before and after flash attention (verl 0.9 `verl.utils.ulysses`). Ours
are losses of the tokens that a rank has, and attention where there is no flash attention, as on a CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from transformers import AttentionInterface
from verl.utils.device import get_device_name
from verl.utils.ulysses import (
    gather_heads_scatter_seq,
    gather_seq_scatter_heads,
    get_ulysses_sequence_parallel_group,
)

from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.contract.errors import SettingsError

TOGETHER = "sharding.sequenceParallel"
# What attention is called in transformers.
ULYSSES = "whetstone_ulysses"
# Kinds of layers that look at other tokens by attention only.
ATTENTION_LAYERS = {"full_attention", "sliding_attention"}


@functools.cache
def teams(count: int, together: int) -> DeviceMesh:
    """Of `count` ranks; `together` neighbours are a group, "sp"."""
    return init_device_mesh(get_device_name(), (count // together, together), mesh_dim_names=("dp", "sp"))


def require_parallel(config: Any, together: int) -> None:
    """Raises SettingsError for a model whose passes so many ranks cannot compute together."""
    if together == 1:
        return
    heads = getattr(config, "num_attention_heads", 0)
    shared = getattr(config, "num_key_value_heads", None) or heads
    if not heads or not ATTENTION_LAYERS.issuperset(getattr(config, "layer_types", None) or ()):
        raise SettingsError(
            TOGETHER, f"must be 1 for a model of type {config.model_type}, whose layers are not all attention"
        )
    if getattr(config, "attn_logit_softcapping", None):
        raise SettingsError(
            TOGETHER, f"must be 1 for a model of type {config.model_type}, which bounds attention's logits"
        )
    if heads % together or (shared % together and together % shared):
        what = f"{heads} attention heads and {shared} of keys and values"
        raise SettingsError(TOGETHER, f"is {together} and must divide the model's {what}")


def of_own_predictors(
    output_TV: Tensor, batch: MicroBatch, group: dist.ProcessGroup, compute: Callable[[Tensor, MicroBatch], Tensor]
) -> Tensor:
    """`compute` by each rank of what it has of a pass, for the trained tokens after that; joined, [M, ...]."""
    start = dist.get_rank(group) * len(output_TV)
    at_M = batch.predictors_M - start
    own_C = ((at_M >= 0) & (at_M < len(output_TV))).nonzero().squeeze(1)
    count = len(at_M)
    own = replace(
        batch,
        targets_M=batch.targets_M[own_C],
        temperatures_M=batch.temperatures_M[own_C],
        supports=batch.supports and batch.supports.of(own_C, count),
    )
    return _Joined.apply(compute(output_TV[at_M[own_C]], own), own_C, count, group)


class _Joined(torch.autograd.Function):
    """What each rank found of some rows, on all of them. A rank's own rows carry its part of the gradient."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, own: Tensor, count: int, group: dist.ProcessGroup) -> Tensor:
        ctx.save_for_backward(own)
        whole = found.new_zeros((count, *found.shape[1:]))
        whole[own] = found
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (own,) = ctx.saved_tensors
        return gradients[0][own], None, None, None


def attention_on_cpu(together: int) -> str:
    """What transformers is to call it. verl's exchange is within flash attention, which a CPU does not have."""
    if together == 1:
        return "sdpa"
    AttentionInterface.register(ULYSSES, _attend)
    return ULYSSES


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    position_ids: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """[1, heads, T, D] of this rank's tokens → [1, T, heads, D]; sequences are those whose positions go on by one."""
    count = dist.get_world_size(get_ulysses_sequence_parallel_group())
    shared = max(1, count // key.shape[1])
    key, value = (one.repeat_interleave(shared, dim=1) for one in (key, value))
    query, key, value = (gather_seq_scatter_heads(one, seq_dim=2, head_dim=1) for one in (query, key, value))
    key, value = (one.repeat_interleave(query.shape[1] // one.shape[1], dim=1) for one in (key, value))
    mask = _mask(_all_positions(position_ids, count), sliding_window)
    found = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return gather_heads_scatter_seq(found, head_dim=1, seq_dim=2).transpose(1, 2).contiguous(), None


def _all_positions(own: Tensor, count: int) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(count)]
    dist.all_gather(parts, own.contiguous(), group=get_ulysses_sequence_parallel_group())
    return torch.cat(parts, dim=-1).squeeze(0)


def _mask(positions_T: Tensor, window: int | None) -> Tensor:
    """[T, T] bool: what each token sees."""
    sequence_T = (positions_T.diff(prepend=positions_T[:1] - 1) != 1).cumsum(0)
    index_T = torch.arange(len(positions_T), device=positions_T.device)
    back_TT = index_T.unsqueeze(1) - index_T
    seen_TT = (sequence_T.unsqueeze(1) == sequence_T) & (back_TT >= 0)
    return seen_TT & (back_TT < window) if window else seen_TT
