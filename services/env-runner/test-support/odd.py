# SPDX-License-Identifier: Apache-2.0
"""See conformance.ts."""

import time

from whetstone_env import environment


@environment("odd")
class Odd:
    """Misbehaves."""

    def __init__(self, size: int = 4, log: str = ""):
        self.size, self.log = size, log

    def reset(self, seed):
        return {"board": [1, self.size]}, {}

    def step(self, action):
        if action == "throw":
            raise RuntimeError("odd")
        if action == "hang":
            time.sleep(1e6)
        if action == "end":
            return "", None, True, False, {}
        return action, 0.5, False, False, {"heard": True}

    def compute_final_reward(self):
        raise RuntimeError("judge is ill")

    def close(self):
        if self.log:
            with open(self.log, "a") as file:
                file.write("closed\n")
