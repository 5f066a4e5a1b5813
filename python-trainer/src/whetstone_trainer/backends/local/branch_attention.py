# SPDX-License-Identifier: Apache-2.0
"""Attention of a prompt's branches on a CPU: to the prompt without a mask, to themselves, and the two joined.

Softmax over both is a mean of the two results, weighed by their sums of exponentials. With the joint sums the backward
pass of either part is its own. No product is masked away, and nobody copies the prompt's keys.
Source: Ring Attention, arXiv 2310.01889; FlashAttention, arXiv 2205.14135, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def attend_branches(
    query: Tensor, prompt_key: Tensor, prompt_value: Tensor, key: Tensor, value: Tensor, masks: Sequence[Tensor]
) -> Tensor:
    """Queries, keys and values [S, heads, D] of all branches, float32; those of the prompt are [P, heads, D].

    `masks`: of parts of the branches, one after the other, [tokens, tokens]: 0 where one attends to the other, or -inf.
    """
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        prompt_key, prompt_value, key, value = (
            one.repeat_interleave(groups, 1) for one in (prompt_key, prompt_value, key, value)
        )
    given = [one.transpose(0, 1).unsqueeze(0) for one in (query, prompt_key, prompt_value, key, value)]
    return _Branches.apply(*given, list(masks)).squeeze(0).transpose(0, 1)


class _Branches(torch.autograd.Function):
    """All tensors are [1, heads, tokens, D]."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, prompt_key, prompt_value, key, value, masks = given
        of_prompt, sums = _forward(query, prompt_key, prompt_value)
        parts = [_forward(*part, attn_mask=mask) for *part, mask in _parts(masks, query, key, value)]
        of_branch, own_sums = torch.cat([out for out, _ in parts], 2), torch.cat([one for _, one in parts], 2)
        joint = torch.logaddexp(sums, own_sums)
        of_prompt.mul_((sums - joint).exp_().unsqueeze(-1))
        out = of_prompt.addcmul_(of_branch, (own_sums - joint).exp_().unsqueeze(-1))
        ctx.save_for_backward(query, prompt_key, prompt_value, key, value, out, joint)
        ctx.masks = masks
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        query, prompt_key, prompt_value, key, value, out, joint = ctx.saved_tensors
        (gradient,) = grad_outputs
        of_query, *of_prompt = _backward(gradient, query, prompt_key, prompt_value, out, joint, 0.0, False)
        own = [
            _backward(*part, 0.0, False, attn_mask=mask)
            for *part, mask in _parts(ctx.masks, gradient, query, key, value, out, joint)
        ]
        of_own = [torch.cat(parts, 2) for parts in zip(*own, strict=True)]
        return of_query.add_(of_own[0]), *of_prompt, *of_own[1:], None


def _parts(masks: Sequence[Tensor], *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """Of each part its tokens of all tensors, and its mask."""
    cut = (one.split([len(mask) for mask in masks], 2) for one in tensors)
    return list(zip(*cut, masks, strict=True))
