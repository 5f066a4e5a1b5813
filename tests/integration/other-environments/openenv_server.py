# SPDX-License-Identifier: Apache-2.0
"""An OpenEnv server made with openenv-core, as its documentation says: a number is to be guessed. Prints its port.

Guesses from 990 on are told what goes wrong: 990 raises, 991 ends the process, 992 hangs, 993 ends without a reward.
"""

import os
import random
import socket
import sys
import time

import uvicorn
from openenv.core.env_server import (
    Action,
    Environment,
    Observation,
    State,
    create_fastapi_app,
)


class GuessAction(Action):
    guess: int


class GuessObservation(Observation):
    said: str


class Guess(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()

    def reset(self, seed=None, episode_id=None, highest=9, **_):
        self.number = random.Random(seed).randint(0, highest)
        self._state = State(episode_id=episode_id)
        return GuessObservation(said=f"0-{highest}?")

    def step(self, action, timeout_s=None, **_):
        self._state.step_count += 1
        match action.guess:
            case 990:
                raise RuntimeError("odd")
            case 991:
                os._exit(3)
            case 992:
                time.sleep(3600)
            case 993:
                return GuessObservation(said="over", done=True)
        if action.guess == self.number:
            return GuessObservation(said="yes", reward=1.0, done=True)
        hint = "higher" if action.guess < self.number else "lower"
        return GuessObservation(said=hint, reward=0.0, done=self._state.step_count == 6)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(
        Guess, GuessAction, GuessObservation, max_concurrent_envs=int(sys.argv[1])
    )
    with socket.create_server(
        ("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
