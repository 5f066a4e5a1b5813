# SPDX-License-Identifier: Apache-2.0
"""Algorithms as data: advantage estimators and token losses, looked up by name.

A new algorithm is a function in one of the registries and a name in `settings.py`; nothing else knows them.
"""

from whetstone_trainer.algorithms.advantages import ADVANTAGES, estimate_advantages, trajectory_advantages
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES, TokenLossInput, agg_loss, token_weights

__all__ = [
    "ADVANTAGES",
    "TOKEN_LOSSES",
    "TokenLossInput",
    "agg_loss",
    "estimate_advantages",
    "token_weights",
    "trajectory_advantages",
]
