# SPDX-License-Identifier: Apache-2.0
"""How much of the waiting prompts a step may compute, so that sequences that are sampling go on meanwhile.

Work is counted in units of a token without context: attention makes later tokens of a prompt dearer. What a unit takes
is learned from the steps that were measured. Who samples should not wait for a prompt longer than `TARGET_S`, or than
sampling takes anyway: then a long prompt at most doubles a step.
"""

from __future__ import annotations

import math

TARGET_S = 0.04
# Prompt tokens that a step computes in any case: fewer would pass the weights through the processor for nearly nothing.
LEAST_TOKENS = 64
# Weight of the newest measurement in the averages.
_NEWEST = 0.25
# Share of a step that is at least put down to its prompts.
_LEAST_SHARE = 0.25


class Pace:
    """`most` prompt tokens a step; a context of n tokens adds n · `context_cost` to the work of a token."""

    def __init__(self, most: int, context_cost: float = 0.0) -> None:
        self.most, self._context_cost = most, context_cost
        self._prompt_s = self._sampling_s = 0.0  # seconds of one unit; 0: not known yet

    def work(self, start: int, end: int) -> float:
        """Units of the tokens from `start` to before `end` of one sequence."""
        return (end - start) * (1.0 + self._context_cost * (start + end) / 2)

    def sampling_work(self, count: int, contexts: int) -> float:
        """Units of one token each for `count` sequences with these tokens of context together."""
        return count + self._context_cost * contexts

    def tokens(self, start: int, work: float) -> int:
        """How many tokens from `start` on are this much work: the inverse of `work`."""
        linear, square = 1.0 + self._context_cost * start, self._context_cost / 2
        if square == 0.0:
            return int(work / linear)
        return int((math.sqrt(linear * linear + 4 * square * work) - linear) / (2 * square))

    def allowance(self, sampling_work: float) -> float:
        """Units of prompts for a step that samples this much beside them; at first without knowledge, so little."""
        if not self._prompt_s:
            return float(min(4 * LEAST_TOKENS, self.most))
        return max(TARGET_S, self._sampling_s * sampling_work) / self._prompt_s

    def observe(self, prompt_work: float, sampling_work: float, seconds: float) -> None:
        """Learns from a step. What it took beyond its sampling is put down to its prompts."""
        if not prompt_work:
            self._sampling_s = _average(self._sampling_s, seconds / sampling_work)
            return
        rest = max(seconds - self._sampling_s * sampling_work, seconds * _LEAST_SHARE)
        self._prompt_s = _average(self._prompt_s, rest / prompt_work)


def _average(before: float, newest: float) -> float:
    return before + (newest - before) * _NEWEST if before else newest
