# SPDX-License-Identifier: Apache-2.0
"""Environments of Gymnasium as they are, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from whetstone_env.errors import LoadError, TaskError
from whetstone_env.gymnasium_environment import gymnasium_kind
from whetstone_env.load import load_kinds
from whetstone_env.spaces import is_readable, observation_text, read_action
from whetstone_env.values import read_reset, read_step


def make(name: str, **args: Any) -> Any:
    kind = gymnasium_kind(name)
    return kind.create(**kind.arguments.parse(args))


def test_frozen_lake_is_walked_by_words_to_its_goal() -> None:
    lake = make("FrozenLake-v1", is_slippery=False, actions=["left", "down", "right", "up"])
    first = read_reset(lake.reset(seed=1))
    assert first["text"] == "[S]FFF\nFHFH\nFFFH\nHFFG\nAn action is one of left, down, right, up."
    path = ["down", "Down", " right ", "right", "down", "right"]
    last = [read_step(lake.step(action), False) for action in path][-1]
    assert (last["reward"], last["terminated"]) == (1.0, True)
    assert last["text"].endswith("HFF[G]")
    lake.close()


@pytest.mark.parametrize("action", ["", "4", "-1", "1.5", "two", "0 1", {"a": 1}, None, "nan", "1e400"])
def test_an_answer_that_is_no_action_is_told_so_and_moves_nothing(action: Any) -> None:
    lake = make("FrozenLake-v1", is_slippery=False)
    lake.reset(seed=1)
    told = read_step(lake.step(action), False)
    assert told["text"].endswith("is no action: it must be a whole number from 0 to 3.")
    assert (told["reward"], told["terminated"], told["info"]) == (0.0, False, {"invalid": True})
    assert "[F]HFH" in read_step(lake.step("1"), False)["text"].splitlines()


def test_the_same_seed_gives_the_same_episode() -> None:
    def play() -> list[str]:
        pole = make("CartPole-v1")
        return [pole.reset(seed=7)[0], *(pole.step(str(i % 2))[0] for i in range(5))]

    assert play() == play()
    assert play()[0].endswith("\nAn action is a whole number from 0 to 1.")


def test_numbers_of_a_continuous_space() -> None:
    car = make("MountainCarContinuous-v0")
    assert car.reset(seed=1)[0].endswith("An action is a number from -1 to 1.")
    assert "invalid" in car.step("1.5")[4]
    assert "invalid" not in car.step("0.5")[4]


def test_wrong_arguments_are_the_tasks_fault() -> None:
    with pytest.raises(TaskError, match="unexpected keyword argument 'siz'") as caught:
        make("CartPole-v1", siz=4)
    assert caught.value.field == "args"
    with pytest.raises(TaskError, match=r"must name each action of Discrete\(4\), not 2"):
        make("FrozenLake-v1", actions=["left", "right"])


def test_any_of_them_is_named_by_the_job() -> None:
    kind = load_kinds(["gymnasium"])["gymnasium"]
    lake = kind.create(**kind.arguments.parse({"id": "FrozenLake-v1", "is_slippery": False}))
    assert lake.reset(seed=1)[0].startswith("[S]FFF")
    for args, field in (
        ({}, "args.id"),
        ({"id": "NoSuchLake-v1"}, "args.id"),
        ({"id": "CartPole-v1", "siz": 4}, "args"),
    ):
        with pytest.raises(TaskError) as caught:
            kind.create(**kind.arguments.parse(args))
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("gymnasium:FrozenLake-v9", "FrozenLake-v9"),
        ("gymnasium:NoSuchLake-v1", "doesn't exist"),
        ("gymnasium:CarRacing-v3", "gymnasium:CarRacing-v3: "),
        ("textarena:Chess-v0", "textarena needs the package textarena: .*pip install textarena"),
    ],
)
def test_what_cannot_be_served_is_refused(target: str, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        load_kinds([target])


def test_spaces_as_text() -> None:
    space = spaces.Dict(
        {"where": spaces.Tuple((spaces.Discrete(4), spaces.Text(5))), "speed": spaces.Box(0, 1, (2,), dtype=np.float32)}
    )
    value = {"where": (3, "north"), "speed": np.array([0.25, 1 / 3], dtype=np.float32)}
    assert observation_text(space, value) == "speed: 0.25, 0.3333\nwhere: 3, north"
    assert not is_readable(spaces.Box(0, 255, (96, 96, 3), dtype=np.uint8))
    assert read_action(spaces.MultiDiscrete([3, 3]), [], "2, 1").tolist() == [2, 1]
    assert read_action(spaces.MultiDiscrete([3, 3]), [], "2, 3") is None
