# SPDX-License-Identifier: Apache-2.0
"""Batches to train on: prompts and answers of version 0, with the log-probabilities that it gives them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.backends.local.policy import load_policy
from whetstone_trainer.batch.episode_rows import episode_rows

JOB = "bench"
# Overrides of the preset "tiny", whose context is shorter than some of the sequences; LARGE: 103 million parameters.
SMALL = {"max_position_embeddings": 4096}
LARGE = {
    **SMALL,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
    "vocab_size": 24_000,
}


@dataclass(frozen=True)
class Sequence:
    """A prompt and its sampled answer. `episode`: sequences of one are turns that do not continue each other."""

    episode: int
    prompt: list[int]
    answer: list[int]
    logprobs: tuple[float, ...] = ()


def frozen_lake(episodes: int, rng: random.Random) -> list[Sequence]:
    """Groups of eight episodes of five turns: a board of 21 tokens, an action of two."""
    found, cells = [], list[int]()
    for episode in range(episodes):
        if episode % 8 == 0:
            cells = [rng.choice([95, 95, 95, 79]) for _ in range(16)]
        position = 5
        for _ in range(5):
            action = rng.randrange(4)
            found.append(Sequence(episode, _board(cells, position), [[85, 68, 76, 82][action], 260]))
            position = min(15, max(0, position + (-4, 4, -1, 1)[action]))
    return found


def _board(cells: list[int], position: int) -> list[int]:
    board = [80 if i == position else cell for i, cell in enumerate(cells)]
    rows = [token for r in range(4) for token in [*board[4 * r : 4 * r + 4], 10]]
    return [256, *rows[:19], 257]


def mixed(count: int, rng: random.Random) -> list[Sequence]:
    """100 to 2,000 tokens, a quarter of them prompt; no two prompts are alike."""
    lengths = [rng.randint(100, 2000) for _ in range(count)]
    return [Sequence(i, _ids(n // 4, rng), _ids(n - n // 4, rng)) for i, n in enumerate(lengths)]


def shared(count: int, rng: random.Random) -> list[Sequence]:
    """Answers of 100 tokens to one prompt of 1,000."""
    prompt = _ids(1000, rng)
    return [Sequence(i, prompt, _ids(100, rng)) for i in range(count)]


def _ids(count: int, rng: random.Random) -> list[int]:
    return [rng.randrange(256) for _ in range(count)]


def sampled(sequences: list[Sequence], model: Path) -> list[Sequence]:
    """With the log-probabilities of their answers under the model."""
    policy = load_policy(model, torch.float32, torch.device("cpu"))
    rows = [row for i, one in enumerate(sequences) for row in episode_rows(to_episode([_zeros(one)], i), i, 0)]
    found: dict[int, tuple[float, ...]] = {}
    with torch.inference_mode():
        for micro in policy.cut(rows, 16_384):
            logprobs_N = policy.score(micro)[0][micro.token_of_N]
            parts = logprobs_N.split([len(row.positions) for row in micro.rows])
            found |= {row.episode: tuple(part.tolist()) for row, part in zip(micro.rows, parts, strict=True)}
    return [replace(one, logprobs=found[i]) for i, one in enumerate(sequences)]


def _zeros(one: Sequence) -> Sequence:
    return replace(one, logprobs=(0.0,) * len(one.answer))


def to_episodes(sequences: list[Sequence]) -> list[types.Episode]:
    """In groups of eight, whose rewards differ."""
    by_episode: dict[int, list[Sequence]] = {}
    for one in sequences:
        by_episode.setdefault(one.episode, []).append(one)
    return [to_episode(turns, episode) for episode, turns in by_episode.items()]


def to_episode(turns: list[Sequence], episode: int) -> types.Episode:
    group, sample = divmod(episode, 8)
    found = types.Episode(id=f"{JOB}/g{group}/s{sample}", job=JOB, group=f"g{group}", sample=sample)
    found.purpose, found.reward = types.PURPOSE_TRAIN, float(sample)
    for index, turn in enumerate(turns):
        span = types.VersionSpan(start=0, end=len(turn.answer))
        given = {"prompt_ids": turn.prompt, "completion_ids": turn.answer, "logprobs": turn.logprobs}
        found.calls.append(types.ModelCall(id=f"c{index}", version_spans=[span], **given))
    return found
