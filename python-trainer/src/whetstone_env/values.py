# SPDX-License-Identifier: Apache-2.0
"""What an environment returned, checked: a wrong value fails its own episode, with words that name it.

The same rules as services/libs/sdk/src/environment-values.ts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from whetstone_env.errors import EpisodeError

# Deeper values cannot be read back from a stored episode.
MAX_DEPTH = 24
# Far above any reward that means something, and far below where squares of rewards overflow.
MAX_REWARD = 1e12
A_REWARD = "a finite number"


def read_reset(returned: Any) -> dict[str, Any]:
    """As a message to the service."""
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise wrong("reset", f"returned {shown(returned)}", "it must be a tuple: observation, info")
    return _seen("reset", *returned)


def read_step(returned: Any, graded_at_end: bool) -> dict[str, Any]:
    """As a message to the service. The episode's end needs a reward, unless one is computed then."""
    if not (isinstance(returned, tuple) and len(returned) == 5):
        rule = "it must be a tuple: observation, reward, terminated, truncated, info"
        raise wrong("step", f"returned {shown(returned)}", rule)
    observation, reward, terminated, truncated, info = map(plain, returned)
    seen = _seen("step", observation, info)
    if reward is not None:
        seen["reward"] = read_reward("step", reward, "ENVIRONMENT", ", or None while none is given")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool):
            raise wrong("step", f"returned {name} {shown(value)}", "it must be True or False")
    if reward is None and (terminated or truncated) and not graded_at_end:
        raise wrong("step", "ended the episode without a reward", "give 0 where nothing was won, or grade the end")
    return {**seen, "terminated": terminated, "truncated": truncated}


def read_reward(method: str, value: Any, code: str, more: str = "") -> float:
    value = plain(value)
    # A comparison with NaN is false.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_REWARD:
        return float(value)
    raise wrong(method, f"returned reward {shown(value)}", f"it must be {A_REWARD}{more}", code)


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's own."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def wrong(method: str, what: str, rule: str, code: str = "ENVIRONMENT") -> EpisodeError:
    return EpisodeError(code, f"the environment's {method}() {what}: {rule}")


def _seen(method: str, observation: Any, info: Any) -> dict[str, Any]:
    if not isinstance(info, Mapping):
        raise wrong(method, f"returned info {shown(info)}", "it must be a dict")
    try:
        seen, told = _json(observation, "observation"), _json(info, "info")
    except _Fault as fault:
        raise wrong(method, f"returned {fault}", "it must be text, or what JSON can hold") from None
    return {"text" if isinstance(seen, str) else "data": seen, "info": told}


def can_be_json(value: Any) -> bool:
    try:
        _json(value, "")
        return True
    except _Fault:
        return False


class _Fault(Exception):
    """What of a value JSON cannot hold, with its path."""


def _json(value: Any, path: str, depth: int = 0) -> Any:
    value = plain(value)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        if math.isfinite(value):
            return value
        raise _Fault(f"{path} {value}")
    if depth == MAX_DEPTH:
        raise _Fault(f"{path[:60]}… nested deeper than {MAX_DEPTH} levels, or in itself")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise _Fault(f"{path} with the name {shown(name)}")
        return {name: _json(each, f"{path}.{name}", depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each, f"{path}[{i}]", depth + 1) for i, each in enumerate(value)]
    raise _Fault(f"{path} {shown(value)} ({type(value).__name__})")
