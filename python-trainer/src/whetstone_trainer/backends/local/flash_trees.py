# SPDX-License-Identifier: Apache-2.0
"""Attention within the trees of a flat pass on a GPU: two calls of FlashAttention a layer, for any number of trees.

A prompt, a branch, and a tree of one branch are each a causal segment of the pass. Branches of a tree attend to their
prompt besides, without a mask. Both results are joined as on a CPU (`branch_attention`): with the joint sums of
exponentials the backward pass of either part is its own.

Shapes: T tokens of the pass, b tokens of branches that share a prompt, p tokens of such prompts, D head size.
Source: FlashAttention-2, arXiv 2307.08691; Ring Attention, arXiv 2310.01889.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whetstone_trainer.backends.local.repeatable import repeatable_kernels
from whetstone_trainer.batch.packing import Tree


def fits(query: Tensor) -> bool:
    """Whether FlashAttention of PyTorch takes such queries, keys and values."""
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    return query.is_cuda and is_half and query.shape[-1] % 8 == 0 and _has_kernels(query.device)


@lru_cache
def _has_kernels(device: torch.device) -> bool:
    """From NVIDIA's Ampere on."""
    return torch.cuda.get_device_capability(device)[0] >= 8


@dataclass(frozen=True)
class Segments:
    """Which tokens attend together: `ends` are int32 [segments + 1], from 0 on; `longest` is in tokens."""

    queries: Tensor
    keys: Tensor
    longest_query: int
    longest_key: int
    is_causal: bool

    @staticmethod
    def of(queries: Sequence[int], keys: Sequence[int], is_causal: bool, device: torch.device) -> Segments:
        """From the tokens of each segment."""
        return Segments(_ends(queries, device), _ends(keys, device), max(queries), max(keys), is_causal)


def _ends(sizes: Sequence[int], device: torch.device) -> Tensor:
    return torch.from_numpy(np.cumsum([0, *sizes], dtype=np.int32)).to(device)


class FlashTrees:
    """Attention of queries, keys and values [T, heads, D] in bfloat16."""

    def __init__(self, trees: Sequence[Tree], device: torch.device) -> None:
        sizes = [size for tree in trees for size in _segments(tree)]
        self._segments = Segments.of(sizes, sizes, True, device)
        starts = np.cumsum([0, *(tree.length for tree in trees)])
        sharing = [(tree, start) for tree, start in zip(trees, starts.tolist(), strict=False) if _is_shared(tree)]
        self._to_prompts: Segments | None = None
        self._branch_b = self._prompt_p = torch.empty(0, dtype=torch.int64, device=device)
        if sharing:
            prompts = [(start, start + len(tree.prompt)) for tree, start in sharing]
            branches = [(start + len(tree.prompt), start + tree.length) for tree, start in sharing]
            self._branch_b, self._prompt_p = _places(branches, device), _places(prompts, device)
            own, seen = ([end - start for start, end in spans] for spans in (branches, prompts))
            self._to_prompts = Segments.of(own, seen, False, device)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        layout = (self._segments, self._to_prompts, self._branch_b, self._prompt_p)
        return _Joined.apply(query.contiguous(), key.contiguous(), value.contiguous(), *layout)


def _is_shared(tree: Tree) -> bool:
    """Whether it has branches that are not just its prompt's continuation."""
    return len(tree.branches) > 1 and tree.length > len(tree.prompt)


def _segments(tree: Tree) -> list[int]:
    if not _is_shared(tree):
        return [tree.length]
    # A branch that only predicts the token after the prompt has no tokens of its own.
    return [len(tree.prompt), *(len(branch.own_ids) for branch in tree.branches if len(branch.own_ids))]


def _places(spans: Sequence[tuple[int, int]], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate([np.arange(*span) for span in spans])).to(device)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, key, value, segments, to_prompts, branch_b, prompt_p = given
        out, sums = flash_forward(query, key, value, segments)
        if to_prompts is not None:
            seen = flash_forward(query[branch_b], key[prompt_p], value[prompt_p], to_prompts)
            own, own_sums = out[branch_b], sums[:, branch_b]
            joint = torch.logaddexp(own_sums, seen[1])
            shares = [(one - joint).exp_().t().unsqueeze(-1) for one in (own_sums, seen[1])]
            out[branch_b] = (own * shares[0] + seen[0] * shares[1]).to(out.dtype)
            sums[:, branch_b] = joint
        ctx.save_for_backward(query, key, value, out, sums, branch_b, prompt_p)
        ctx.layout = segments, to_prompts
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, sums, branch_b, prompt_p = ctx.saved_tensors
        segments, to_prompts = ctx.layout
        gradient = grad_outputs[0].contiguous()
        of_query, of_key, of_value = flash_backward(gradient, query, key, value, out, sums, segments)
        if to_prompts is not None:
            given = (gradient[branch_b], query[branch_b], key[prompt_p], value[prompt_p], out[branch_b])
            seen = flash_backward(*given, sums[:, branch_b].contiguous(), to_prompts)
            of_query.index_add_(0, branch_b, seen[0])
            of_key.index_add_(0, prompt_p, seen[1])
            of_value.index_add_(0, prompt_p, seen[2])
        return of_query, of_key, of_value, None, None, None, None


def flash_forward(query: Tensor, key: Tensor, value: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """Attention [tokens, heads, D], and the logarithms of the sums of exponentials [heads, tokens], float32."""
    ends = (segments.queries, segments.keys, segments.longest_query, segments.longest_key)
    given = (query, key, value, *ends, 0.0, segments.is_causal, False)
    out, sums, *_ = torch.ops.aten._flash_attention_forward(*given)
    return out, sums


def flash_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, sums: Tensor, segments: Segments
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values."""
    ends = (segments.queries, segments.keys, segments.longest_query, segments.longest_key)
    # The state of dropout, which there is none of.
    state = torch.zeros(2, dtype=torch.uint64, device=query.device), torch.empty(0, device=query.device)
    given = (gradient, query, key, value, out, sums, *ends, 0.0, segments.is_causal, *state)
    with repeatable_kernels():
        return torch.ops.aten._flash_attention_backward(*given)
