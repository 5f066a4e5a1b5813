# SPDX-License-Identifier: Apache-2.0
"""Matrix products of a training pass on a CPU: by oneDNN, which PyTorch has beside MKL, where that is faster.

Both are exact float32. MKL leaves AVX-512 unused on processors that are not Intel's: there oneDNN is twice as fast. On
Intel's a step takes a tenth less by MKL, which also keeps no kernel for each size.
Source: PyTorch `aten/src/ATen/native/mkldnn/Linear.cpp` (`_linear_pointwise`, what torch.compile uses for a CPU).
"""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Multiply-adds from which a product is worth it: a shape that is new costs about a millisecond once.
WORTH_IT = 1 << 22


def is_faster(machine: str, processor: str) -> bool:
    """Whether oneDNN is there and computes faster than what PyTorch takes. `processor`: /proc/cpuinfo."""
    return torch.backends.mkldnn.is_available() and machine in ("x86_64", "AMD64") and "GenuineIntel" not in processor


def _processor() -> str:
    """Empty where no such file is."""
    with contextlib.suppress(OSError):
        return Path("/proc/cpuinfo").read_text()
    return ""


IS_FASTER = is_faster(platform.machine(), _processor())


class Linear(nn.Linear):
    """x · weightᵀ + bias, by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., I] and weight [O, I] → [..., O]."""
    return _Product.apply(x, weight, bias) if _is_worth_it(x, weight) else F.linear(x, weight, bias)


def _is_worth_it(x: Tensor, weight: Tensor) -> bool:
    """An engine (inference mode) has a new shape in every step, and casts (autocast) are F.linear's."""
    return (
        IS_FASTER
        and not torch.is_inference_mode_enabled()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * len(weight) >= WORTH_IT
        and not torch.is_autocast_enabled("cpu")
    )


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _by_onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (gradient,) = grad_outputs
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        flat = gradient.flatten(0, -2)
        return (
            _by_onednn(gradient, weight.t()) if of_x else None,
            _by_onednn(flat.t(), x.flatten(0, -2).t()) if of_weight else None,
            flat.sum(0) if of_bias and ctx.has_bias else None,
        )


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
