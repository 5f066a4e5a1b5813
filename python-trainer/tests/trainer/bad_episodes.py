# SPDX-License-Identifier: Apache-2.0
"""Ways to break an episode, or a pair of conversations, and what a step says of what it leaves out for that."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from whetstone.types.v1 import types_pb2 as types

from whetstone_models.init import VOCAB

TOKENS, CONTEXT = range(65, 91), 1024
Pair = list[types.Episode]


def greedy(episode: types.Episode, chance: random.Random) -> None:
    for call in episode.calls:
        call.sampling.temperature = 0


def without_logprobs(episode: types.Episode, chance: random.Random) -> None:
    del chance.choice(episode.calls).logprobs[chance.randint(0, 1) :]


def wrong_vocabulary(episode: types.Episode, chance: random.Random) -> None:
    call = chance.choice(episode.calls)
    ids = chance.choice([call.prompt_ids, call.completion_ids])
    ids[chance.randrange(len(ids))] = chance.choice([VOCAB, 10**6, 2**32 - 1])


def huge(episode: types.Episode, chance: random.Random) -> None:
    if chance.random() < 0.5:
        episode.calls[0].prompt_ids.extend(chance.choices(TOKENS, k=chance.randint(CONTEXT, 100 * CONTEXT)))
    else:
        episode.reward = chance.choice([-1, 1]) * 10 ** chance.uniform(13, 300)


def empty(episode: types.Episode, chance: random.Random) -> None:
    if chance.random() < 0.5:
        del episode.calls[:]
    for call in episode.calls:
        for field in ("completion_ids", "logprobs", "version_spans", "demonstration_mask"):
            call.ClearField(field)


def not_a_number(episode: types.Episode, chance: random.Random) -> None:
    value = chance.choice([math.nan, math.inf, -math.inf])
    where = chance.choice(["reward", "trajectory", "logprob", "temperature"])
    if where == "reward":
        episode.reward = value
    elif where == "trajectory":
        episode.trajectories.add(role="agent", reward=value)
    elif where == "logprob":
        call = chance.choice(episode.calls)
        call.logprobs[chance.randrange(len(call.logprobs))] = value
    else:
        for call in episode.calls:
            call.sampling.temperature = value


def alien_label(episode: types.Episode, chance: random.Random) -> None:
    spans = chance.choice(episode.calls).version_spans
    spans[0].policy_version = chance.choice([1, 2, 10**6, 2**63, 2**64 - 1])
    if chance.random() < 0.5:
        spans[0].policy_version = 0
        spans[0].end = chance.choice([0, 1, 10**6])


# How an episode is broken, and what the step says of it.
KINDS: dict[Callable[[types.Episode, random.Random], None], str] = {
    greedy: "every call was greedy",
    without_logprobs: r"\d completion ids but [01] logprobs",
    wrong_vocabulary: "is not below",
    huge: f"longer than the {CONTEXT} of the model|reward is beyond",
    empty: "no token of it was sampled",
    not_a_number: "is not finite|every call was greedy",
    alien_label: "is newer than step 0|has no policy version|version span",
}


def alone(of: Pair) -> Pair:
    return of[:1]


def with_a_third(of: Pair) -> Pair:
    third = types.Episode()
    third.CopyFrom(of[0])
    third.id += "-too"
    return [*of, third]


def none_chosen(of: Pair) -> Pair:
    of[0].reward = of[1].reward
    return of


def same(of: Pair) -> Pair:
    of[0].calls[0].completion_ids[:] = of[1].calls[0].completion_ids
    return of


def untrained(of: Pair) -> Pair:
    of[1].calls[0].demonstration_mask[:] = [0] * len(of[1].calls[0].completion_ids)
    return of


# How a pair of sound conversations is broken, and what the step says of each of them.
PAIR_KINDS: dict[Callable[[Pair], Pair], str] = {
    alone: "is no pair: it has 1 conversations",
    with_a_third: "is no pair: it has 3 conversations",
    none_chosen: r"both conversations have the reward 0\.0, so none of them is chosen",
    same: "both conversations are the same",
    untrained: "no token of .*/s1 is trained",
}
