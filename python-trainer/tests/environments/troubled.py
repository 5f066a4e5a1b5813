# SPDX-License-Identifier: Apache-2.0
"""Environments that do what their action says."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any, Literal

import numpy as np

from whetstone_env import TaskError, environment


@environment("troubled", description="Does what it is told.", seedable=True)
class Troubled:
    def __init__(self, size: int = 3, mood: Literal["good", "bad"] = "good", share: float | None = None) -> None:
        if size > 9:
            raise TaskError("must be at most 9", "args.size")
        if mood == "bad":
            raise RuntimeError("not today")
        self.size = size

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.seed = seed
        return {"seed": seed, "luck": random.random(), "array": np.arange(2)}, {"pid": os.getpid()}

    def step(self, action: str) -> Any:
        match action:
            case "raise":
                raise ValueError("odd")
            case "loop":
                while True:
                    pass
            case "exit":
                sys.exit(3)
            case "vanish":
                os._exit(7)
            case "child":
                child = subprocess.Popen(["sleep", "1000"])
                return str(child.pid), 0, False, False, {}
            case "grow":
                return str(len(bytearray(1 << 31))), 0, False, False, {}
            case "nan":
                return "", float("nan"), False, False, {}
            case "object":
                return {"deep": [object()]}, 0, False, False, {}
            case "four":
                return "", 0, False, False
            case "task":
                raise TaskError("no such question", "args.question")
            case "no reward":
                return "", None, True, False, {}
            case "large":
                return "x" * (17 << 20), 0, False, False, {}
            case "variables":
                return [name for name in os.environ if name.startswith("WHETSTONE_")], 0, False, False, {}
        return "done", np.float32(1), np.bool_(True), False, {"success": True}
