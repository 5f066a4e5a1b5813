# SPDX-License-Identifier: Apache-2.0
"""Matrix products in bfloat16, everything that adds up in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from compute_device import DEVICE
from test_gradients import GRPO, SETTINGS, adam, gradient, make_rows

from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.optimizer import make_optimizer, optimizer_tensors
from whetstone_trainer.backends.local.policy import Policy, load_policy

Load = Callable[[Path, torch.dtype, torch.device], Policy]
BOTH = pytest.mark.parametrize("load", [load_policy, HuggingFacePolicy.load], ids=["ours", "transformers"])


@BOTH
def test_products_in_bfloat16_move_float32_weights_by_less_than_bfloat16_can_hold(load: Load, model_path: Path) -> None:
    policy, settings = load(model_path, torch.bfloat16, DEVICE), replace(SETTINGS, optimizer=adam(learning_rate=1e-7))
    before = torch.cat([one.detach().flatten().clone() for one in policy.module.parameters()])
    optimizer = make_optimizer(policy.module, settings.optimizer)
    for step in range(3):
        train_rows(policy, optimizer, make_rows(21), settings, step, lambda _: None)
    after = torch.cat([one.detach().flatten() for one in policy.module.parameters()])
    trained = torch.cat([state["exp_avg"].flatten() != 0 for state in optimizer.state.values()])
    assert after.dtype == torch.float32
    assert {one.dtype for one in optimizer_tensors(optimizer)} == {torch.float32}
    # Three steps of AdamW move a weight by about three times the rate.
    moved = (after - before)[trained].abs()
    assert 1e-7 < moved.median() < 4e-7
    # As bfloat16 almost none of it would be left.
    assert (before.bfloat16() == after.bfloat16())[trained].float().mean() > 0.98


@BOTH
def test_gradients_with_products_in_bfloat16_agree_with_those_in_float32(load: Load, model_path: Path) -> None:
    rows = make_rows(21)
    exact, rounded = (
        gradient(load(model_path, dtype, DEVICE), [rows], GRPO) for dtype in (torch.float32, torch.bfloat16)
    )
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)

    assert (rounded - exact).norm() < 0.01 * exact.norm()


@BOTH
def test_log_probabilities_are_float32_and_close(load: Load, model_path: Path) -> None:
    exact, rounded = (load(model_path, dtype, DEVICE) for dtype in (torch.float32, torch.bfloat16))
    (micro,) = exact.cut(make_rows(21), 10**6)
    with torch.no_grad():
        (expected_M, _), (logprobs_M, entropies_M) = exact.score(micro), rounded.score(micro)
    assert (logprobs_M.dtype, entropies_M.dtype) == (torch.float32, torch.float32)

    assert (logprobs_M - expected_M).abs().max() < 0.01
