# SPDX-License-Identifier: Apache-2.0
"""Pays for every letter L, and says so much about each step that an episode is larger than a message may be."""

from whetstone_env import environment

PAGE = "a page of some tool's answer. " * 24_000


@environment("large")
class Large:
    def reset(self, seed):
        return f"task {seed % 7}", {}

    def step(self, action):
        return "again", float("L" in action) + 0.1 * (len(action) % 3), True, False, {"page": PAGE}
