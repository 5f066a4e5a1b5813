# SPDX-License-Identifier: Apache-2.0
"""Plays frozenlake at the URL given, with the client of openenv-core, and prints what it found."""

import json
import sys

from openenv.core.generic_client import GenericEnvClient


def first_map(url: str, seed: int) -> str:
    with GenericEnvClient(base_url=url).sync() as env:
        return env.reset(seed=seed).observation["text"]


with GenericEnvClient(base_url=sys.argv[1]).sync() as env:
    first = env.reset(seed=7)
    sides = sum("\t" in line for line in first.observation["text"].split("\n"))
    env.step({"action": "Right"})
    state = env.state()["step_count"]
    try:
        env.step({"move": "Right"})
        refused = ""
    except RuntimeError as error:
        refused = str(error).split("code: ")[1].rstrip(")")
    steps = 0
    over = first.done
    while not over and steps < 200:
        result = env.step({"action": "Down" if steps % 2 else "Right"})
        over = result.done
        steps += 1
    assert result.reward is not None
    same = (
        first_map(sys.argv[1], 7)
        == first.observation["text"]
        != first_map(sys.argv[1], 8)
    )
print(
    json.dumps(
        {"same": same, "sides": sides, "over": over, "refused": refused, "state": state}
    )
)
