# SPDX-License-Identifier: Apache-2.0
"""Applies what requests ask for to the logits of their rows, before temperature and truncation, as vLLM does.

Everything is derived from the tokens of the sequence itself, so it holds after a preemption, and other rows are not
touched. Formulas: OpenAI's API reference for presence and frequency, CTRL (arXiv 1909.05858) for repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whetstone_engine.logits.asked import LogitChanges
from whetstone_engine.logits.grammar import Grammar


@dataclass(slots=True)
class RowChanges:
    """Of one sequence."""

    asked: LogitChanges
    grammar: Grammar | None = None


@dataclass(slots=True, frozen=True)
class Tokens:
    """Of one sequence: [prompt tokens], [sampled tokens]."""

    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]


def change_logits(logits_SV: Tensor, rows: Mapping[int, tuple[RowChanges, Tokens]]) -> None:
    """In place. `rows`: by their place in the batch. Raises RuntimeError where a row has no token left to draw."""
    for row, (changes, tokens) in rows.items():
        change_row(logits_SV[row], changes, tokens)


def change_row(logits_V: Tensor, changes: RowChanges, tokens: Tokens) -> None:
    """As `change_logits`, one row."""
    asked = changes.asked
    if asked.bias:
        ids, biases = zip(*asked.bias, strict=True)
        logits_V[list(ids)] += torch.tensor(biases, device=logits_V.device)
    if asked.repetition != 1.0:
        _repetition(logits_V, asked.repetition, np.unique(np.concatenate((tokens.prompt, tokens.answer))))
    if (asked.presence or asked.frequency) and len(tokens.answer):
        ids, counts = np.unique(tokens.answer, return_counts=True)
        penalties = (asked.presence + asked.frequency * counts).astype(np.float32)
        logits_V[torch.from_numpy(ids)] -= torch.from_numpy(penalties).to(logits_V.device)
    if changes.grammar is not None:
        forbidden = torch.from_numpy(~changes.grammar.allowed(tokens.answer)).to(logits_V.device)
        logits_V.masked_fill_(forbidden, -torch.inf)
        if not torch.isfinite(logits_V.amax()):
            raise RuntimeError("the form of the answer leaves no token to draw")


def _repetition(logits_V: Tensor, penalty: float, ids: NDArray[np.int64]) -> None:
    index = torch.from_numpy(ids).to(logits_V.device)
    seen = logits_V[index]
    logits_V[index] = torch.where(seen > 0, seen / penalty, seen * penalty)
