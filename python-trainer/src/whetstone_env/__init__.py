# SPDX-License-Identifier: Apache-2.0
"""Environments in Python: what `python -m whetstone_env MODULE` serves to the same jobs as the built-in ones.

A class with `reset(seed)` and `step(action)`, as Gymnasium has them, and the decorator `@environment("kind")`.
"""

from whetstone_env.define import environment
from whetstone_env.errors import TaskError

__all__ = ["TaskError", "environment"]
