# SPDX-License-Identifier: Apache-2.0
"""Environments of Gymnasium as they are: `gymnasium`, or one of them, `gymnasium:FrozenLake-v1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import gymnasium

from whetstone_env.arguments import Arguments
from whetstone_env.define import Kind
from whetstone_env.errors import LoadError, TaskError
from whetstone_env.spaces import action_rule, is_readable, observation_text, read_action
from whetstone_env.values import can_be_json, shown

# What a rendering highlights, such as the player's cell.
HIGHLIGHT = re.compile("\x1b\\[[\\d;]+m(.)\x1b\\[0m")


class GymnasiumEnvironment:
    """Observations are the environment's rendering, where it has one in text, else its numbers.

    An answer that is no action is told so, with a reward of 0: that is the policy's fault, and the environment stays
    as it is.
    """

    def __init__(self, name: str, presets: Mapping[str, Any], *, actions: list[str] | None = None, **args: Any) -> None:
        """`actions`: names for the numbers of a Discrete space. `args`: for gymnasium.make."""
        try:
            self._environment = gymnasium.make(name, **{**presets, **args})
        except TypeError as error:
            raise TaskError(str(error), "args") from None
        self._names = actions or []
        space = self._environment.action_space
        if self._names and len(self._names) != getattr(space, "n", None):
            raise TaskError(f"must name each action of {space}, not {len(self._names)}", "args.actions")
        self._rule = action_rule(space, self._names)

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        observation, info = self._environment.reset(seed=seed)
        return f"{self._text(observation)}\nAn action is {self._rule}.", _told(info)

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        chosen = read_action(self._environment.action_space, self._names, action)
        if chosen is None:
            return f"{shown(action)} is no action: it must be {self._rule}.", 0.0, False, False, {"invalid": True}
        observation, reward, terminated, truncated, info = self._environment.step(chosen)
        return self._text(observation), float(reward), bool(terminated), bool(truncated), _told(info)

    def close(self) -> None:
        self._environment.close()

    def _text(self, observation: Any) -> str:
        if self._environment.render_mode == "ansi":
            return HIGHLIGHT.sub(r"[\1]", str(self._environment.render())).strip("\n")
        return observation_text(self._environment.observation_space, observation)


def gymnasium_kind(name: str = "") -> Kind:
    """One environment, under its own name; without a name all of them, as the kind `gymnasium`.

    Raises LoadError for one that Gymnasium does not have, that cannot be made here, or that no text can describe.
    """
    if name == "":
        text = f"Any environment of Gymnasium {gymnasium.__version__} that text can describe."
        return Kind("gymnasium", text, True, any_environment, Arguments(any_environment))
    try:
        presets = _tried(name)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise LoadError(f"gymnasium:{name}: {error}") from error
    create = partial(GymnasiumEnvironment, name, presets)
    return Kind(name, f"{name} of Gymnasium {gymnasium.__version__}.", True, create, Arguments(create))


def any_environment(*, id: str, actions: list[str] | None = None, **args: Any) -> GymnasiumEnvironment:
    """`id`: which one, as gymnasium.make takes it."""
    try:
        presets = _tried(id)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise TaskError(str(error), "args.id") from None
    return GymnasiumEnvironment(id, presets, actions=actions, **args)


@cache
def _tried(name: str) -> dict[str, Any]:
    """Makes it once. Arguments with which its observations are text; raises TypeError where nothing makes them so."""
    tried = gymnasium.make(name)
    tried.close()
    action_rule(tried.action_space, [])
    if "ansi" in tried.metadata.get("render_modes", ()):
        return {"render_mode": "ansi"}
    if is_readable(tried.observation_space):
        return {}
    raise TypeError(f"observations of {tried.observation_space} cannot be text; write a class that makes them so")


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    """Of what an environment tells beside, the part that JSON can hold."""
    return {name: value for name, value in info.items() if can_be_json(value)}
