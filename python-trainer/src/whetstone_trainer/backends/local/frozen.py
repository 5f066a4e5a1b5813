# SPDX-License-Identifier: Apache-2.0
"""Copies of what holds a module."""

from __future__ import annotations

import copy
from typing import Any, Protocol, TypeVar

from torch import nn


class HoldsModule(Protocol):
    @property
    def module(self) -> nn.Module: ...


H = TypeVar("H", bound=HoldsModule)


def copied(holder: H) -> H:
    """What is frozen of the module stays in memory once."""
    frozen: dict[int, Any] = {id(one): one for one in holder.module.parameters() if not one.requires_grad}
    return copy.deepcopy(holder, frozen)
