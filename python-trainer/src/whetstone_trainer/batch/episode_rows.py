# SPDX-License-Identifier: Apache-2.0
"""Episodes → training rows, by exact prefix merge of their calls (I4, I5).

A call that continues its trajectory's latest call lengthens that call's row: new prompt ids with mask 0, sampled ids
with mask 1. What others said in between (another trajectory, a sub-agent, a frozen role) is context, mask 0. So is
a greedy call, whose tokens have probability 1 whatever the weights, and a call drawn from a part of the vocabulary
(top_p, top_k, min_p) that its engine did not name: where it did, probabilities are taken over that part. So is one that
was drawn otherwise than the job says (`altered_by`). A root starts a row. So does a fork: the shared prefix is repeated
with mask 0, because its tokens are trained once, in the row that came first. A row is all of one trajectory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.call_tokens import (
    demonstration_mask,
    is_context,
    logprobs_of,
    supports_of,
    temperature_of,
    versions_of,
)
from whetstone_trainer.batch.rows import UNSAMPLED, WHOLE, Row, not_computed
from whetstone_trainer.contract.errors import ContractError

# Of an episode or a trajectory, to either side of 0. With more, gradients overflow in float32.
LARGEST_REWARD = 1e12


@dataclass
class _Draft:
    """A row in the making; lists grow token by token."""

    owner: int
    token_ids: list[int]
    positions: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    comparable: list[bool] = field(default_factory=list)
    supports: list[np.ndarray] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)

    def sampled(self, token_ids: list[int], logprobs: list[float], versions: list[int]) -> None:
        start = len(self.token_ids)
        self.token_ids += token_ids
        self.positions += range(start, start + len(token_ids))
        self.logprobs += logprobs
        self.versions += versions

    def drawn(self, supports: list[np.ndarray], temperature: float, comparable: bool) -> None:
        """How the tokens added last were drawn."""
        self.temperatures += [temperature] * len(supports)
        self.comparable += [comparable] * len(supports)
        self.supports += supports

    def support(self) -> np.ndarray:
        """The column of a row."""
        if not any(len(one) for one in self.supports):
            return not_computed()
        column = np.empty(len(self.supports), dtype=object)
        for index, one in enumerate(self.supports):
            column[index] = one
        return column

    def finish(self, episode: int, first_trajectory: int, trained_tokens: int) -> Row:
        return Row(
            episode,
            np.array(self.token_ids, dtype=np.int64),
            np.array(self.positions, dtype=np.int64),
            np.array(self.logprobs, dtype=np.float32),
            np.array(self.versions, dtype=np.int64),
            np.array(self.temperatures, dtype=np.float32),
            np.array(self.comparable, dtype=bool),
            np.ones(len(self.positions), dtype=np.float32),
            first_trajectory + self.owner,
            share=len(self.positions) / trained_tokens,
            calls=tuple(self.calls),
            support=self.support(),
        )


def episode_rows(
    episode: types.Episode, index: int, step: int, owners: Mapping[str, int] | None = None, first_trajectory: int = 0
) -> list[Row]:
    """Rows of one episode that have a trained token. `step`: versions above it are impossible.

    `owners`: which of the episode's trajectories a call belongs to; calls it does not name are context. Absent: all
    belong to the first. `first_trajectory`: what that one's index is in the batch.
    Raises ContractError for unlabelled tokens, lengths that disagree, unknown parents, numbers that are not finite, and
    if every call is context. The orchestrator judges the same when it seals: proto/golden/trainable.json.
    """
    if owners is None:
        owners = {} if episode.masked else {call.id: 0 for call in episode.calls}
    _require_trainable(episode)
    calls: dict[str, types.ModelCall] = {}
    # Rows that can be continued, by their trajectory and last call.
    open_rows: dict[tuple[int, str], _Draft] = {}
    drafts: list[_Draft] = []
    for call in episode.calls:
        if call.parent_id and call.parent_id not in calls:
            raise ContractError(f"{episode.id} call {call.id}: parent {call.parent_id!r} is not an earlier call")
        calls[call.id] = call
        owner = owners.get(call.id)
        if owner is None or is_context(call, episode):
            continue
        draft = _continued(call, owner, calls, open_rows)
        if draft is None:
            draft = _Draft(owner, _prefix(call, calls))
            drafts.append(draft)
        draft.token_ids += call.prompt_ids
        _append_completion(draft, call, episode, step)
        open_rows[owner, call.id] = draft
    tokens = Counter[int]()
    for draft in drafts:
        tokens[draft.owner] += len(draft.positions)
    return [draft.finish(index, first_trajectory, tokens[draft.owner]) for draft in drafts if draft.positions]


def _continued(
    call: types.ModelCall,
    owner: int,
    calls: Mapping[str, types.ModelCall],
    open_rows: dict[tuple[int, str], _Draft],
) -> _Draft | None:
    """The trajectory's row that this call continues, lengthened by what others said since; None: it starts its own."""
    between: list[types.ModelCall] = []
    for ancestor in _ancestors(call, calls):
        draft = open_rows.pop((owner, ancestor.id), None)
        if draft is not None:
            for other in reversed(between):
                draft.token_ids += other.prompt_ids
                draft.token_ids += other.completion_ids
            return draft
        between.append(ancestor)
    return None


def _prefix(call: types.ModelCall, calls: Mapping[str, types.ModelCall]) -> list[int]:
    """Ids before the call's own prompt ids."""
    token_ids: list[int] = []
    for one in reversed(list(_ancestors(call, calls))):
        token_ids += one.prompt_ids
        token_ids += one.completion_ids
    return token_ids


def _ancestors(call: types.ModelCall, calls: Mapping[str, types.ModelCall]) -> Iterator[types.ModelCall]:
    """The calls that this one continues, the latest first."""
    while call.parent_id:
        call = calls[call.parent_id]
        yield call


def _append_completion(draft: _Draft, call: types.ModelCall, episode: types.Episode, step: int) -> None:
    where = f"{episode.id} call {call.id}"
    token_ids, trained_before = list(call.completion_ids), len(draft.positions)
    if not draft.token_ids and token_ids:
        raise ContractError(f"{where}: a sampled token without a prompt")
    if episode.purpose == types.PURPOSE_DEMONSTRATION:
        for token_id, trained in zip(token_ids, demonstration_mask(call, where), strict=True):
            if trained:
                draft.sampled([token_id], [0.0], [UNSAMPLED])
                draft.drawn([WHOLE], 1.0, False)
            else:
                draft.token_ids.append(token_id)
    else:
        draft.sampled(token_ids, logprobs_of(call, where), versions_of(call, where, step))
        draft.drawn(supports_of(call, where), temperature_of(call.sampling), True)
    draft.calls.append((call.id, len(draft.positions) - trained_before))


def _require_trainable(episode: types.Episode) -> None:
    returns = [step.mc_return for one in episode.trajectories for step in one.steps]
    rewards = (episode.reward, *(one.reward for one in episode.trajectories), *returns)
    if not all(map(math.isfinite, rewards)):
        raise ContractError(f"{episode.id}: its reward is not finite")
    if any(abs(reward) > LARGEST_REWARD for reward in rewards):
        raise ContractError(f"{episode.id}: its reward is beyond ±{LARGEST_REWARD:.0f}")
    sampled = [call for call in episode.calls if call.completion_ids]
    if sampled and all(is_context(call, episode) for call in sampled):
        why = (
            "every call was greedy (temperature 0), drawn from a part of the vocabulary that its engine did not name, "
            "or drawn otherwise than the job says"
        )
        raise ContractError(f"{episode.id}: none of its tokens can be trained: {why}")
