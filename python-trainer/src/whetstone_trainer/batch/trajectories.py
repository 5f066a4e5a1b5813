# SPDX-License-Identifier: Apache-2.0
"""Episodes → trajectories: who is credited for which model call.

A call belongs to the trajectory whose step names it, the first one if several do. What no step names is context: it is
seen by the calls after it and never trained, such as the calls of a sub-agent that has no trajectory of its own. Where
there is no choice to make, names are not asked for:
- An episode without trajectories has one a role of its calls (a demonstration: a single one).
- A role's only trajectory, if its steps name no call at all, gets the calls made in that role.
- The last call belongs to the episode's only trajectory: the runtime may have ended the episode at an answer that
  became no step (unusable, or its prompt was too long).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.contract.settings import RoleSettings

DEFAULT_ROLE = "agent"


@dataclass(frozen=True)
class Trajectory:
    """A member of the group (group, role)."""

    # Index into the batch's episodes.
    episode: int
    group: str
    role: str
    # Environment's units.
    reward: float
    # False: the role is frozen or played by another model, so it has no advantage and nothing of it is trained.
    trained: bool
    # Reward of the greedy episode that was played for the group. None: there was none.
    baseline: float | None = None
    # Its calls in order, each with the Monte-Carlo return from there on.
    steps: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Split:
    """An episode's trajectories, and which of them (an index into the list) each trained call belongs to."""

    trajectories: list[Trajectory]
    owners: dict[str, int]


def split_episode(episode: types.Episode, index: int, group: str, roles: Mapping[str, RoleSettings]) -> Split:
    """Single-trajectory episodes have the episode's reward, which is the one that the manifest lists."""
    if episode.purpose == types.PURPOSE_DEMONSTRATION:
        names, rewards, owners = [DEFAULT_ROLE], [episode.reward], {call.id: 0 for call in episode.calls}
    elif episode.trajectories:
        names, rewards, owners = _reported(episode)
    else:
        names, rewards, owners = _by_role(episode)
    trained = [_is_trained(name, roles) for name in names]
    trajectories = [
        Trajectory(index, group, name, reward, kept, steps=_steps(episode, number, owners, reward))
        for number, (name, reward, kept) in enumerate(zip(names, rewards, trained, strict=True))
    ]
    frozen_calls = {call.id for call in episode.calls if not _is_trained(call.role, roles)}
    kept_owners = {call: owner for call, owner in owners.items() if trained[owner] and call not in frozen_calls}
    return Split(trajectories, {} if episode.masked else kept_owners)


def _reported(episode: types.Episode) -> tuple[list[str], list[float], dict[str, int]]:
    names = [trajectory.role or DEFAULT_ROLE for trajectory in episode.trajectories]
    owners: dict[str, int] = {}
    for index, trajectory in enumerate(episode.trajectories):
        for step in trajectory.steps:
            if step.call_id:
                owners.setdefault(step.call_id, index)
    _add_calls_of_the_silent(episode, names, owners)
    if len(names) > 1:
        return names, [trajectory.reward for trajectory in episode.trajectories], owners
    if episode.calls and episode.calls[-1].role in {call.role for call in episode.calls if call.id in owners}:
        owners.setdefault(episode.calls[-1].id, 0)
    return names, [episode.reward], owners


def _add_calls_of_the_silent(episode: types.Episode, names: list[str], owners: dict[str, int]) -> None:
    heard = set(owners.values())
    silent = {name: i for i, name in enumerate(names) if i not in heard and names.count(name) == 1}
    for call in episode.calls if silent else ():
        index = silent.get(call.role or DEFAULT_ROLE)
        if index is not None:
            owners.setdefault(call.id, index)


def _by_role(episode: types.Episode) -> tuple[list[str], list[float], dict[str, int]]:
    names: list[str] = []
    owners: dict[str, int] = {}
    for call in episode.calls:
        role = call.role or DEFAULT_ROLE
        if role not in names:
            names.append(role)
        owners[call.id] = names.index(role)
    names = names or [DEFAULT_ROLE]
    return names, [episode.reward] * len(names), owners


def _steps(
    episode: types.Episode, number: int, owners: Mapping[str, int], reward: float
) -> tuple[tuple[str, float], ...]:
    """Nothing was earned after a call that became no step. Where no call has a step, each has led to the reward."""
    steps = episode.trajectories[number].steps if episode.trajectories else []
    returns = {step.call_id: step.mc_return for step in reversed(steps)}
    own = [call.id for call in episode.calls if owners.get(call.id) == number]
    otherwise = 0.0 if any(call in returns for call in own) else reward
    return tuple((call, returns.get(call, otherwise)) for call in own)


def _is_trained(role: str, roles: Mapping[str, RoleSettings]) -> bool:
    settings = roles.get(role or DEFAULT_ROLE)
    return settings is None or settings.trained
