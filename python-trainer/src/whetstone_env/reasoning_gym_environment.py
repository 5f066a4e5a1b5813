# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""Data sets of Reasoning Gym as they are, one question an episode: the kind `reasoning-gym`."""

from __future__ import annotations

from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS
from reasoning_gym.utils import extract_answer

from whetstone_env.arguments import Arguments
from whetstone_env.define import Kind
from whetstone_env.errors import TaskError, words_of
from whetstone_env.values import can_be_json


class ReasoningGymEnvironment:
    """The seed makes the question; the data set itself grades the answer, which may be worth a part of 1."""

    def __init__(self, dataset: str, config: dict[str, Any] | None = None, answer_tag: str | None = None) -> None:
        """`config`: settings of the data set. `answer_tag`: the answer stands in <tag>; else it is all the text."""
        if dataset not in DATASETS:
            raise TaskError(
                f"Reasoning Gym has no data set {dataset!r}; it has {', '.join(sorted(DATASETS))}", "args.dataset"
            )
        for name in {"seed", "size"} & set(config or {}):
            raise TaskError("comes from the episode's seed", f"args.config.{name}")
        self._name, self._config, self._tag = dataset, config or {}, answer_tag

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        # Its own checks of the configuration are in words for people.
        try:
            self._dataset = reasoning_gym.create_dataset(self._name, seed=seed, size=1, **_with_tuples(self._config))
        except (AssertionError, TypeError, ValueError) as error:
            raise TaskError(words_of(error), "args.config") from None
        self._entry = self._dataset[0]
        return self._entry["question"], {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        text = action if isinstance(action, str) else str(action)
        answer = text.strip() if self._tag is None else extract_answer(text, self._tag)
        score = float(self._dataset.score_answer(answer, self._entry))
        metadata = {name: value for name, value in self._entry["metadata"].items() if can_be_json(value)}
        told = {"success": score >= 1, "answer": str(self._entry["answer"]), "metadata": metadata}
        return "", score, True, False, told


def _with_tuples(config: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples, which is what the settings of data sets hold."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}


def reasoning_gym_kind() -> Kind:
    text = "A question of Reasoning Gym, graded by its data set."
    return Kind("reasoning-gym", text, True, ReasoningGymEnvironment, Arguments(ReasoningGymEnvironment))
