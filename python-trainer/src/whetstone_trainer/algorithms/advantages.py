"""Advantages, one number an episode; every trained token of the episode gets it.

Group statistics are taken once an episode, however many rows its calls make, and never see a voided member,
because a manifest does not list one.  Source: verl core_algos; vectors: proto/golden/advantages.json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whetstone_trainer.settings import AlgorithmSettings

STD_EPSILON = 1e-6

# (rewards of one group [G], float64; settings) → advantages [G].
GroupAdvantage = Callable[[np.ndarray, AlgorithmSettings], np.ndarray]


def grpo(rewards_G: np.ndarray, settings: AlgorithmSettings) -> np.ndarray:
    """(r - mean) / (std + 1e-6), ddof 1; without the division it is Dr.GRPO's. A single member: mean 0, std 1."""
    if len(rewards_G) == 1:
        mean, std = 0.0, 1.0
    else:
        mean, std = rewards_G.mean(), rewards_G.std(ddof=1)
    centred = rewards_G - mean
    return centred / (std + STD_EPSILON) if settings.normalize_by_std else centred


def constant(rewards_G: np.ndarray, settings: AlgorithmSettings) -> np.ndarray:
    """1 whatever the reward: supervised fine-tuning imitates every demonstration alike."""
    del settings
    return np.ones_like(rewards_G)


ADVANTAGES: dict[str, GroupAdvantage] = {"grpo": grpo, "constant": constant}


def estimate_advantages(rewards: Sequence[float], groups: Sequence[str], settings: AlgorithmSettings) -> np.ndarray:
    """Advantages [episodes], float64, in the order given. Groups below `settings.min_group` get 0.

    A group whose rewards are all equal gets exactly 0, so that rounding of the mean makes no signal of nothing.
    """
    estimator = ADVANTAGES[settings.advantage]
    rewards_E = np.asarray(rewards, dtype=np.float64)
    advantages_E = np.zeros_like(rewards_E)
    for members in _members(groups).values():
        rewards_G = rewards_E[members]
        if len(members) >= settings.min_group and not _is_flat(rewards_G, settings):
            advantages_E[members] = estimator(rewards_G, settings)
    return advantages_E


def _is_flat(rewards_G: np.ndarray, settings: AlgorithmSettings) -> bool:
    return settings.advantage == "grpo" and len(rewards_G) > 1 and bool((rewards_G == rewards_G[0]).all())


def _members(groups: Sequence[str]) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    return members
