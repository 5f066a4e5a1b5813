# SPDX-License-Identifier: Apache-2.0
"""`@environment("kind")`: what makes a class an environment that jobs can name."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from whetstone_env.arguments import Arguments

KIND = re.compile(r"[A-Za-z0-9][-_.:/A-Za-z0-9]{0,127}")
MARK = "__whetstone_kind__"
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Kind:
    """An environment that is served, by its name."""

    name: str
    description: str
    # The same seed and arguments give the same episode on every machine.
    seedable: bool
    create: Callable[..., Any]
    arguments: Arguments

    def described(self) -> Mapping[str, Any]:
        """What the service tells of it, without its code."""
        return {
            "kind": self.name,
            "description": self.description,
            "seedable": self.seedable,
            "args_schema_json": json.dumps(self.arguments.schema),
        }


def environment(kind: str, *, description: str = "", seedable: bool = False) -> Callable[[Class], Class]:
    """Marks a class as the environment `kind`.

    Each episode is an instance of its own, made with the job's arguments and the task's payload by name:

        reset(seed)  -> (observation, info)
        step(action) -> (observation, reward, terminated, truncated, info)
        compute_final_reward() -> reward, close()    both optional

    Observations are text, or what JSON can hold. The reward is a number, or None while none is given.
    """
    if not KIND.fullmatch(kind):
        raise ValueError(f'"{kind}" is no name of an environment: it must match {KIND.pattern}')

    def mark(cls: Class) -> Class:
        for method in ("reset", "step"):
            if not callable(getattr(cls, method, None)):
                raise TypeError(f"{cls.__name__}: an environment needs the method {method}")
        for method in ("reset", "step", "compute_final_reward", "close"):
            if inspect.iscoroutinefunction(getattr(cls, method, None)):
                raise TypeError(
                    f"{cls.__name__}.{method} is async: an episode has a process of its own, so write it without async"
                )
        text = description or (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
        setattr(cls, MARK, Kind(kind, text, seedable, cls, Arguments(cls)))
        return cls

    return mark


def kind_of(value: Any) -> Kind | None:
    """Of a class that the decorator has marked itself; what derives from it is marked by its own."""
    return value.__dict__.get(MARK) if isinstance(value, type) else None
