# SPDX-License-Identifier: Apache-2.0
"""One request on its way through the engine, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whetstone_engine.adapters.adapter import Adapter
from whetstone_engine.logits.asked import LogitChanges
from whetstone_engine.logits.change import RowChanges


@dataclass(slots=True)
class SamplingParams:
    """How to sample. Neutral values switch a filter off: top_p 1, top_k 0, min_p 0; temperature 0 is greedy.

    `logprobs` is None for none, else the number of alternatives beside the sampled token (0..20).
    """

    max_tokens: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    logits: LogitChanges | None = None


@dataclass(slots=True)
class Output:
    """Tokens of one choice: all of them at the end of a request, or those since the last chunk of a stream.

    `alternatives[i]` lists (token id, logprob, rank) of the most likely tokens at place i, when asked for.
    `supports[i]` lists the ids that truncated sampling kept at place i; empty where nothing was truncated, or without a
    top_k.
    `versions` holds (label, start, end) half-open over the whole output so far, set with `finish_reason`, or with
    each chunk where the request wants that.
    """

    token_ids: list[int]
    logprobs: list[float]
    ranks: list[int]
    alternatives: list[list[tuple[int, float, int]]]
    finish_reason: str | None = None
    stop_reason: int | None = None
    versions: list[tuple[str, int, int]] | None = None
    error: str | None = None
    supports: list[list[int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Sequence:
    """State of one request. Owned by the step thread after `submit`; `sink` belongs to the event loop.

    `slot` is its row in `SlotTable`, -1 while it waits. `marks` are (label, first output index it sampled).
    `tells_versions`: each chunk of its stream has the spans so far. `changes`: what it asks of its logits.
    """

    request_id: str
    prompt: list[int]
    params: SamplingParams
    sink: Any
    stream: bool = False
    salt: str = ""
    slot: int = -1
    cached_tokens: int = 0
    blocks: list[int] = field(default_factory=list)
    alternatives: list[list[tuple[int, float, int]]] = field(default_factory=list)
    supports: list[list[int]] = field(default_factory=list)
    marks: list[tuple[str, int]] = field(default_factory=list)
    sent: int = 0
    done: bool = False
    tells_versions: bool = False
    changes: RowChanges | None = None
    adapter: Adapter | None = None

    def mark(self, label: str, output_index: int) -> None:
        """Tokens from `output_index` on are sampled by `label` (I5: every token keeps the label that sampled it).

        Those of an adapter are labelled with its name.
        """
        label = label if self.adapter is None else self.adapter.name
        if not self.marks or self.marks[-1][0] != label:
            self.marks.append((label, output_index))

    def versions(self, length: int) -> list[tuple[str, int, int]]:
        """Contiguous spans over [0, length); [] for no tokens."""
        starts = [start for _, start in self.marks] + [length]
        spans = [(label, starts[i], starts[i + 1]) for i, (label, _) in enumerate(self.marks)]
        return [span for span in spans if span[1] < span[2]]
