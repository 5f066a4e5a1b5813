# SPDX-License-Identifier: Apache-2.0
"""Attention of a pass's trees by FlashAttention equals that of every sequence alone.

On a CPU, which has no such kernels, a dense attention with their meaning takes their place: it shows which tokens
attend together, and that both parts are joined rightly. WHETSTONE_TEST_DEVICE=cuda tries the kernels themselves.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from test_gradients import make_rows
from torch import Tensor

from whetstone_trainer.backends.local import flash_trees
from whetstone_trainer.backends.local.flash_trees import FlashTrees, Segments
from whetstone_trainer.backends.local.tree_attention import TreeAttention
from whetstone_trainer.batch.packing import Branch, Tree, build_trees

HEADS, KV_HEADS, DIM = 4, 2, 16


def visible(segments: Segments) -> Tensor:
    """[queries, keys]: which attends to which."""
    counts = [np.diff(ends.cpu().numpy()) for ends in (segments.queries, segments.keys)]
    segment_Q, segment_K = (np.repeat(np.arange(len(count)), count) for count in counts)
    place_Q, place_K = (np.concatenate([np.arange(one) for one in count]) for count in counts)
    seen_QK = segment_Q[:, None] == segment_K
    return torch.from_numpy(seen_QK & (place_Q[:, None] >= place_K) if segments.is_causal else seen_QK)


def scores(query: Tensor, key: Tensor, segments: Segments) -> Tensor:
    wide = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    found = torch.einsum("qhd,khd->hqk", query, wide) * query.shape[-1] ** -0.5
    return found.masked_fill(~visible(segments), -torch.inf)


def dense_forward(query: Tensor, key: Tensor, value: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    found = scores(query, key, segments)
    wide = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    return torch.einsum("hqk,khd->qhd", found.softmax(-1), wide), found.logsumexp(-1)


def dense_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, sums: Tensor, segments: Segments
) -> tuple[Tensor, ...]:
    """With the output and the sums that are given, as the kernel: these may be of more keys than are given."""
    groups = query.shape[1] // key.shape[1]
    weights = (scores(query, key, segments) - sums.unsqueeze(-1)).exp()
    of_weights = torch.einsum("qhd,khd->hqk", gradient, value.repeat_interleave(groups, 1))
    of_scores = weights * (of_weights - (gradient * out).sum(-1).t().unsqueeze(-1)) * query.shape[-1] ** -0.5
    of_query = torch.einsum("hqk,khd->qhd", of_scores, key.repeat_interleave(groups, 1))
    of_key = torch.einsum("hqk,qhd->khd", of_scores, query)
    of_value = torch.einsum("hqk,qhd->khd", weights, gradient)
    return of_query, *(one.unflatten(1, (-1, groups)).sum(2) for one in (of_key, of_value))


def some_trees() -> list[Tree]:
    """Plain sequences and prompts that are shared, short and long, with a branch that has no token of its own."""
    long = Tree(np.arange(300), [], 300)
    for count in (40, 0, 7, 130):
        long.add(Branch([], np.arange(count)))
    alone = Tree(np.arange(5), [], 5)
    for _ in range(2):
        alone.add(Branch([], np.arange(0)))
    return [*build_trees(make_rows(21), 10**6), long, alone]


def attended(attend: TreeAttention | FlashTrees, tensors: list[Tensor], gradient: Tensor) -> list[Tensor]:
    """The result, and the gradients of queries, keys and values."""
    leaves = [one.clone().requires_grad_() for one in tensors]
    out = attend(0, *leaves) if isinstance(attend, TreeAttention) else attend(*leaves)
    out.backward(gradient)
    return [out.detach(), *(one.grad for one in leaves if one.grad is not None)]


def given(trees: list[Tree], dtype: torch.dtype, device: torch.device) -> tuple[list[Tensor], Tensor]:
    total = sum(tree.length for tree in trees)
    torch.manual_seed(1)
    tensors = [torch.randn(total, heads, DIM, dtype=torch.float64) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)]
    *tensors, gradient = (one.to(device, dtype) for one in tensors)
    return tensors, gradient


def test_both_parts_of_a_tree_are_joined_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash_trees, "flash_forward", dense_forward)
    monkeypatch.setattr(flash_trees, "flash_backward", dense_backward)
    trees, cpu = some_trees(), torch.device("cpu")
    tensors, gradient = given(trees, torch.float64, cpu)
    expected = attended(TreeAttention(trees, torch.arange(0), 1), tensors, gradient)
    found = attended(FlashTrees(trees, cpu), tensors, gradient)
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="the kernels need a GPU")
def test_the_kernels_find_what_float32_finds() -> None:
    trees = some_trees()
    tensors, gradient = given(trees, torch.bfloat16, DEVICE)
    exact = [one.float() for one in tensors]
    expected = attended(TreeAttention(trees, torch.arange(0, device=DEVICE), 1), exact, gradient.float())
    assert flash_trees.fits(tensors[0])
    found = attended(TreeAttention(trees, torch.arange(0, device=DEVICE), 1), tensors, gradient)
    for one, other in zip(found, expected, strict=True):
        assert float((one.float() - other).abs().mean()) < 0.01 * float(other.abs().mean())
