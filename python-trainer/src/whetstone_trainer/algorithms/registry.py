# SPDX-License-Identifier: Apache-2.0
"""Finds what the files of a folder offer, so that no list has to be kept beside them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    """Something that is looked up by name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def offered(package: str, path: Iterable[str], kind: type[N]) -> dict[str, N]:
    """Every `kind` that the files of a package define, by name. Raises ValueError if two have the same."""
    found: dict[str, N] = {}
    for info in pkgutil.iter_modules(path):
        for value in vars(importlib.import_module(f"{package}.{info.name}")).values():
            if not isinstance(value, kind):
                continue
            if value.name in found:
                raise ValueError(f"{package} has two of the name {value.name!r}")
            found[value.name] = value
    return found
