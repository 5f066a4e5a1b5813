# SPDX-License-Identifier: Apache-2.0
"""Of eight tasks one raises, one ends its own process, one hangs; the others pay for every letter L."""

import os
import signal

from whetstone_env import environment


@environment("troubled")
class Troubled:
    def reset(self, seed):
        self.seed = seed
        return "task", {}

    def step(self, action):
        match self.seed % 8:
            case 5:
                raise RuntimeError("odd")
            case 6:
                os.kill(os.getpid(), signal.SIGKILL)
            case 7:
                while True:
                    pass
        return "again", float("L" in action) + 0.1 * (len(action) % 3), True, False, {}
