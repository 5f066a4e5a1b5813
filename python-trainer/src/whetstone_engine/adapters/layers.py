# SPDX-License-Identifier: Apache-2.0
"""A model whose linear layers add what the adapters of a step say to the rows that these are of.

The product with the model's own weights is one for all rows, whatever adapter they have. Each adapter adds two thin
products to its own.

Shapes: N packed tokens of a step, S of them that are sampled from.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from whetstone_engine.adapters.adapter import Adapter
from whetstone_models.transformer import Attention, Transformer


@dataclass(frozen=True)
class Rows:
    """An adapter and which rows of a step are its own, of all N and of those S; None: every row is."""

    adapter: Adapter
    of_N: Tensor | None = None
    of_S: Tensor | None = None


@dataclass
class Step:
    """What the layers of a model share: the adapters of the step that is computed."""

    rows: Sequence[Rows] = ()


class AdaptedLinear(nn.Linear):
    """Shares weight and bias with `base`. `sampled`: it is computed only for rows that are sampled from."""

    def __init__(self, base: nn.Linear, name: str, step: Step, sampled: bool) -> None:
        nn.Module.__init__(self)  # that of Linear would allocate a second weight
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self._name, self._step, self._sampled = name, step, sampled

    def forward(self, input: Tensor) -> Tensor:
        """input [N or S, in] → [N or S, out]."""
        result = F.linear(input, self.weight, self.bias)
        for own in self._step.rows:
            pair = own.adapter.layers.get(self._name)
            if pair is None:
                continue
            down, up = pair
            rows = own.of_S if self._sampled else own.of_N
            if rows is None:
                result += F.linear(F.linear(input, down), up)
            else:
                result.index_add_(0, rows, F.linear(F.linear(input[rows], down), up))
        return result


class Adapted:
    """A model of the same parameters as `model`, in the same memory."""

    def __init__(self, model: Transformer) -> None:
        held = [*model.parameters(), *(part for one in model.modules() for part in _fused(one))]
        self._step = Step()
        self._model = copy.deepcopy(model, {id(tensor): tensor for tensor in held})
        last = f"model.layers.{len(model.model.layers) - 1}."
        for name, module in list(self._model.named_modules()):
            if isinstance(module, Attention):
                module.fused = None
            if isinstance(module, nn.Linear) and name.startswith("model.layers."):
                parent, _, child = name.rpartition(".")
                # The last layer keeps keys and values of every token and computes the rest for those sampled from.
                sampled = name.startswith(last) and child not in ("k_proj", "v_proj")
                setattr(self._model.get_submodule(parent), child, AdaptedLinear(module, name, self._step, sampled))

    def with_rows(self, rows: Sequence[Rows]) -> Transformer:
        """The model, which computes these rows by their adapters until it is asked for others."""
        self._step.rows = rows
        return self._model


def _fused(module: nn.Module) -> list[Tensor]:
    fused = module.fused if isinstance(module, Attention) else None
    return [] if fused is None else [one for one in fused if one is not None]
