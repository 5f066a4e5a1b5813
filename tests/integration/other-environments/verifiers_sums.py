# SPDX-License-Identifier: Apache-2.0
"""A taskset of verifiers, as its documentation says: sums, with a user who asks again once when the answer is wrong."""

import re

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str


class Sum(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        if trace.last_reply == "raise":
            raise RuntimeError("odd")
        return float(re.sub(r"\D", "", trace.last_reply) == self.data.answer)


class SumsConfig(vf.TasksetConfig):
    count: int = 50


class Sums(vf.Taskset[Sum, SumsConfig]):
    def load(self):
        for i in range(self.config.count):
            a, b = 10 + i, 3 * i
            yield Sum(
                SumData(
                    prompt=f"{a} + {b} =",
                    answer=str(a + b),
                    system_prompt="Answer with a number.",
                ),
                self.config.task,
            )


__all__ = ["Sums"]
