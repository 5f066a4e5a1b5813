# SPDX-License-Identifier: Apache-2.0
"""An environment of OpenEnv: a number is to be guessed. `python server.py`, with openenv-core and uvicorn."""

import random

import uvicorn
from openenv.core.env_server import (
    Action,
    Environment,
    Observation,
    State,
    create_fastapi_app,
)


class Guess(Action):
    guess: int


class Hint(Observation):
    said: str


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, highest=9, **_):
        self.number, self.state = random.Random(seed).randint(0, highest), State(episode_id=episode_id)
        return Hint(said=f"0-{highest}?")

    def step(self, action, **_):
        self.state.step_count += 1
        if action.guess == self.number:
            return Hint(said="yes", reward=1.0, done=True)
        hint = "higher" if action.guess < self.number else "lower"
        return Hint(said=hint, reward=0.1, done=self.state.step_count == 3)

    state = None


uvicorn.run(create_fastapi_app(Guessing, Guess, Hint, max_concurrent_envs=128), port=8000, log_level="warning")
