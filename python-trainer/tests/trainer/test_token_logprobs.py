# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies in place have the values and gradients of their definition."""

from __future__ import annotations

import pytest
import torch
from compute_device import DEVICE
from torch import Tensor

from whetstone_trainer.backends.local import token_logprobs as module
from whetstone_trainer.backends.local.scoring import EXCLUDED
from whetstone_trainer.backends.local.token_logprobs import token_logprobs


def by_definition(logits_CV: Tensor, targets_C: Tensor, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    log_CV = logits_CV.log_softmax(-1)
    of_entropy_CV = log_CV if entropy_gradient else log_CV.detach()
    return log_CV.gather(1, targets_C[:, None])[:, 0], -(of_entropy_CV.exp() * of_entropy_CV).sum(-1)


def logits_and_targets() -> tuple[Tensor, Tensor]:
    """Even, peaked and partly excluded rows."""
    generator = torch.Generator().manual_seed(1)
    logits_CV = torch.randn(23, 40, generator=generator, dtype=torch.float64) * torch.logspace(-2, 2, 23)[:, None]
    targets_C = torch.randint(0, 10, (23,), generator=generator)
    logits_CV[5:9, 20:] = EXCLUDED
    return logits_CV.to(DEVICE), targets_C.to(DEVICE)


@pytest.mark.parametrize("entropy_gradient", [False, True])
@pytest.mark.parametrize("elements", [1, 160, 1 << 20], ids=["row by row", "four rows", "whole"])
def test_values_and_gradients_are_those_of_the_definition(
    monkeypatch: pytest.MonkeyPatch, entropy_gradient: bool, elements: int
) -> None:
    monkeypatch.setattr(module, "CPU_ELEMENTS", elements)
    logits_CV, targets_C = logits_and_targets()
    weights_2C = torch.randn(2, len(targets_C), dtype=torch.float64, device=DEVICE)
    found = []
    for compute in (by_definition, token_logprobs):
        leaf = logits_CV.clone().requires_grad_()
        # A table of its own, as a product of hidden states is.
        outs = compute(leaf * 1.0, targets_C, entropy_gradient)
        loss = (outs[0] * weights_2C[0]).sum()
        (loss + (outs[1] * weights_2C[1]).sum() if entropy_gradient else loss).backward()
        found.append((*(out.detach() for out in outs), leaf.grad))
    for exact, got in zip(*found, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-9, atol=1e-9)


def test_without_a_gradient_nothing_is_kept() -> None:
    logits_CV, targets_C = logits_and_targets()
    exact = by_definition(logits_CV, targets_C, False)
    found = token_logprobs(logits_CV.clone(), targets_C, False)
    assert found[0].grad_fn is None
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
