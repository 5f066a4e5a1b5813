# SPDX-License-Identifier: Apache-2.0
"""Spaces of Gymnasium as text: how an observation reads, and which words are an action."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from gymnasium import Space, spaces

# An array with more numbers is an image or the like: no text that a model could read.
MAX_NUMBERS = 64


def is_readable(space: Space[Any]) -> bool:
    """Whether observations of it can be text."""
    if isinstance(space, spaces.Dict):
        return all(map(is_readable, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(is_readable, space.spaces))
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        return int(np.prod(space.shape or (1,))) <= MAX_NUMBERS
    return isinstance(space, spaces.Discrete | spaces.Text)


def observation_text(space: Space[Any], value: Any) -> str:
    """Numbers to four digits, in order; parts of a Dict by name."""
    if isinstance(space, spaces.Dict):
        return "\n".join(f"{name}: {observation_text(each, value[name])}" for name, each in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        return ", ".join(observation_text(each, part) for each, part in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Text):
        return str(value)
    return ", ".join(f"{number:.4g}" for number in np.asarray(value, dtype=float).flat)


def action_rule(space: Space[Any], names: list[str]) -> str:
    """What an action must be, in words for the policy. Raises TypeError for a space whose actions cannot be text."""
    if names:
        return f"one of {', '.join(names)}"
    match space:
        case spaces.Discrete():
            return f"a whole number from {space.start} to {space.start + space.n - 1}"
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            count = int(np.prod(space.shape or (1,)))
            bounds = ""
            if isinstance(space, spaces.Box) and space.is_bounded():
                bounds = f" from {space.low.min():g} to {space.high.max():g}"
            return f"{count} numbers{bounds}, with commas between them" if count > 1 else f"a number{bounds}"
        case spaces.Text():
            return f"text of {space.min_length} to {space.max_length} characters"
    raise TypeError(f"actions of {space} cannot be read from text")


def read_action(space: Space[Any], names: list[str], action: Any) -> Any:
    """None: no action of the space."""
    text = (action if isinstance(action, str) else json.dumps(action)).strip()
    if names:
        known = [name.lower() for name in names]
        return known.index(text.lower()) + int(getattr(space, "start", 0)) if text.lower() in known else None
    if isinstance(space, spaces.Text):
        return text if space.contains(text) else None
    numbers = _numbers(text)
    if isinstance(space, spaces.Discrete):
        whole = len(numbers) == 1 and numbers[0].is_integer()
        return np.int64(numbers[0]) if whole and space.contains(np.int64(numbers[0])) else None
    if len(numbers) != int(np.prod(space.shape or (1,))):
        return None
    value = np.array(numbers).reshape(space.shape or ()).astype(space.dtype)
    return value if space.contains(value) else None


def _numbers(text: str) -> list[float]:
    """Empty when it is anything but numbers."""
    words = re.split(r"[\s,]+", text.strip("[]() "))
    try:
        return [float(word) for word in words if len(word) < 32]
    except ValueError:
        return []
