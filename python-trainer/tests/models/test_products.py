# SPDX-License-Identifier: Apache-2.0
"""Products by oneDNN: as exact as those of PyTorch, gradients included, and only where they are worth it."""

from __future__ import annotations

import platform
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whetstone_models import products
from whetstone_models.products import WORTH_IT, Linear, linear

IS_THERE = products.is_faster(platform.machine(), "")


@pytest.fixture(autouse=True)
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a processor on which it is not chosen."""
    monkeypatch.setattr(products, "IS_FASTER", IS_THERE)


Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def operands(shape: tuple[int, ...], outputs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input, weight, bias, and the gradient of what comes out; of sums with much cancellation."""
    torch.manual_seed(2)
    return torch.randn(*shape), torch.randn(outputs, shape[-1]), torch.randn(outputs), torch.randn(*shape[:-1], outputs)


def worked(product: Product, *given: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """What comes out, and the gradients of input, weight and bias; float64."""
    x, weight, bias = (one.detach().to(dtype).requires_grad_() for one in given[:3])
    out = product(x, weight, bias)
    out.backward(given[3].to(dtype))
    return [one.detach().double() for one in (out, x.grad, weight.grad, bias.grad) if one is not None]


@pytest.mark.parametrize("shape", [(700, 96), (5, 140, 96), (333, 250)])
def test_a_product_and_its_gradients_are_exact_to_float32(shape: tuple[int, ...]) -> None:
    given = operands(shape, 289)
    assert given[0].numel() * 289 >= WORTH_IT
    exact = worked(F.linear, *given, dtype=torch.float64)
    for ours, theirs, right in zip(worked(linear, *given), worked(F.linear, *given), exact, strict=True):
        norm = float(right.norm())
        assert ours.shape == right.shape
        assert float((ours - right).norm()) <= 2 * float((theirs - right).norm())
        assert float((ours - right).norm()) < 1e-6 * norm


def test_the_same_product_is_the_same_bit_for_bit() -> None:
    given = operands((1000, 128), 256)
    for one, again in zip(worked(linear, *given), worked(linear, *given), strict=True):
        assert torch.equal(one, again)


def test_a_frozen_weight_gets_no_gradient() -> None:
    x, weight, bias, gradient = operands((700, 96), 289)
    linear(x.requires_grad_(), weight, bias).backward(gradient)
    torch.testing.assert_close(x.grad, gradient @ weight, rtol=1e-4, atol=1e-4)
    assert weight.grad is None


@pytest.mark.parametrize(
    ("machine", "processor", "expected"),
    [
        ("x86_64", "vendor_id : AuthenticAMD", IS_THERE),
        ("x86_64", "vendor_id : GenuineIntel", False),
        ("arm64", "", False),
    ],
)
def test_it_is_chosen_where_the_other_leaves_half_the_processor_unused(
    machine: str, processor: str, expected: bool
) -> None:
    assert products.is_faster(machine, processor) is expected


@pytest.mark.skipif(not IS_THERE, reason="needs oneDNN on x86")
def test_it_is_for_large_float32_products_that_are_no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    product = products._by_onednn

    def counted(x: Tensor, *rest: Tensor) -> Tensor:
        asked.append(tuple(x.shape))
        return product(x, *rest)

    monkeypatch.setattr(products, "_by_onednn", counted)
    layer, x = Linear(128, 256), torch.randn(1000, 128)
    layer(x)
    assert asked == [(1000, 128)]
    with torch.no_grad():
        layer(x)
    assert len(asked) == 2
    layer(x[:16])
    layer.to(torch.bfloat16)(x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        layer.float()(x)
    with torch.inference_mode():
        layer(x)
    assert len(asked) == 2
