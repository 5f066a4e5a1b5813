# SPDX-License-Identifier: Apache-2.0
"""The process of one episode at a time: makes the environment, resets it, steps it, closes it."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Mapping
from typing import Any

from whetstone_env import frames
from whetstone_env.define import Kind
from whetstone_env.errors import EpisodeError, failure_of
from whetstone_env.values import read_reset, read_reward, read_step


def work(connection: socket.socket, kinds: Mapping[str, Kind]) -> None:
    """Answers calls until the service closes the connection."""
    episode = Episode(kinds)
    while (call := frames.receive(connection)) is not None:
        connection.sendall(_answered(episode, call))


def _answered(episode: Episode, call: dict[str, Any]) -> bytes:
    """Whatever an environment raises is an answer; also SystemExit, which is not for it to say."""
    method = call.pop("method")
    try:
        return frames.encode({"ok": getattr(episode, method)(**call)})
    except (Exception, SystemExit) as error:
        failure = failure_of(error)
        return frames.encode({"code": failure.code, "field": failure.field, "message": failure.message})


class Episode:
    """One environment, from reset to close; then the next one."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds
        self._environment: Any = None

    def reset(self, kind: str, args: dict[str, Any], seed: int) -> dict[str, Any]:
        """An argument `seed`, the task's own, is the constructor's where that takes one, else that of the reset."""
        chosen = self._kinds[kind]
        if "seed" in args and not chosen.arguments.names("seed"):
            seed = _whole(args.pop("seed"))
        given = chosen.arguments.parse(args)
        _seed_globals(seed)
        self._environment = chosen.create(**given)
        return read_reset(self._environment.reset(seed=seed))

    def step(self, action: Any) -> dict[str, Any]:
        """The last step's reward is the grade, where the environment grades its end."""
        grade = getattr(self._environment, "compute_final_reward", None)
        result = read_step(self._environment.step(action), grade is not None)
        if grade is not None and (result["terminated"] or result["truncated"]):
            result["reward"] = _graded(grade)
        return result

    def close(self) -> None:
        environment, self._environment = self._environment, None
        if callable(close := getattr(environment, "close", None)):
            close()


def _graded(grade: Any) -> float:
    """Whatever a grader raises is a GRADER failure."""
    try:
        return read_reward("compute_final_reward", grade(), "GRADER")
    except (Exception, SystemExit) as error:
        failure = failure_of(error, "GRADER")
        raise EpisodeError("GRADER", f"the reward could not be computed: {failure.message}", failure.field) from None


def _whole(seed: Any) -> int:
    if isinstance(seed, int | float) and not isinstance(seed, bool) and seed >= 0 and seed == int(seed):
        return int(seed)
    raise EpisodeError("TASK", f"must be a whole number, not {seed!r}", "args.seed")


def _seed_globals(seed: int) -> None:
    """Processes are forked from one, so that generators nobody seeds would say the same in all of them."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
