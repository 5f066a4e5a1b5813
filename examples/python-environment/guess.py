# SPDX-License-Identifier: Apache-2.0
"""A number is to be guessed; each wrong guess is told whether the number is higher or lower."""

import random

from whetstone_env import TaskError, environment


@environment("guess", seedable=True)
class Guess:
    """Guess a number."""

    def __init__(self, highest: int = 9, turns: int = 3):
        if highest < 1:
            raise TaskError("must be at least 1", "args.highest")
        self.highest, self.turns_left = highest, turns

    def reset(self, seed):
        self.number = random.Random(seed).randint(0, self.highest)
        return f"0-{self.highest}?", {}

    def step(self, action):
        self.turns_left -= 1
        digits = action.strip()
        if not digits.isdecimal():
            # The policy's own fault: a reward as any other, not an exception.
            return "number?", 0.0, False, self.turns_left == 0, {"invalid": True}
        if int(digits) == self.number:
            return "yes", 1.0, True, False, {"success": True}
        hint = "higher" if int(digits) < self.number else "lower"
        return hint, 0.1, False, self.turns_left == 0, {}
