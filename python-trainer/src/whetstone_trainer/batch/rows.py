# SPDX-License-Identifier: Apache-2.0
"""Episodes → training rows, by exact prefix merge of their calls (I4, I5).

A call that continues its trajectory's latest call lengthens that call's row: new prompt ids with mask 0, sampled ids
with mask 1. What others said in between (another trajectory, a sub-agent, a frozen role) is context, mask 0. So is
a greedy call, whose tokens have probability 1 whatever the weights, and a call drawn from a part of the vocabulary
(top_p, top_k, min_p) that its engine did not name: where it did, probabilities are taken over that part. A root starts
a row. So does a fork: the shared prefix is repeated with mask 0, because its tokens are trained once, in the row that
came first. A row is all of one trajectory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.contract.errors import ContractError

UNSAMPLED = -1
# Of an episode or a trajectory, to either side of 0. With more, gradients overflow in float32.
LARGEST_REWARD = 1e12
# The support of a token that was drawn from all of the vocabulary.
WHOLE = np.zeros(0, dtype=np.int64)


def not_computed() -> np.ndarray:
    """A column [0] that no step has set yet."""
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True)
class Row:
    """One sequence: its ids [T], and its trained tokens [K]. What is not trained has no entry, thus no loss."""

    # Index into the batch's episodes.
    episode: int
    token_ids: np.ndarray
    # Where the trained tokens stand in token_ids, ascending; never 0.
    positions: np.ndarray
    # Of the policy that sampled them, nats.
    logprobs: np.ndarray
    # Policy version that sampled them; UNSAMPLED for demonstrations.
    versions: np.ndarray
    # What logits are divided by before the softmax.
    temperatures: np.ndarray
    # True: sampled, so that logprobs can be recomputed as those of softmax(logits / temperature).
    comparable: np.ndarray
    # What each token's loss is multiplied by; other than 1 only after `proximal.anchor`.
    importance: np.ndarray
    # Index into the batch's trajectories.
    trajectory: int = 0
    # Its trained tokens among those of its trajectory: sibling rows count as one rollout together.
    share: float = 1.0
    # Of each trained token the ids that it was drawn from, its support; an empty one: the whole vocabulary. The column
    # is empty where all are. Probabilities are taken over the support, under every policy (arXiv 2512.02556).
    support: np.ndarray = field(default_factory=not_computed)
    # The calls of the trained tokens, in order, with how many each has.
    calls: tuple[tuple[str, int], ...] = ()
    # What a step computes of its trained tokens [K]. Set by `algorithms.estimates`.
    advantages: np.ndarray = field(default_factory=not_computed)
    # Its role's, looks up `algorithms.losses`; empty: the job's own. Set by `algorithms.estimates`.
    token_loss: str = ""
    # The critic's at the batch's start, and what it is trained towards; empty for estimators that use no values. Set by
    # `algorithms.values` and `algorithms.estimates`.
    values: np.ndarray = field(default_factory=not_computed)
    returns: np.ndarray = field(default_factory=not_computed)
    # Of the policy that ratios are taken to, nats. Set by `algorithms.proximal`.
    old_logprobs: np.ndarray = field(default_factory=not_computed)
    # Of the reference, nats, and what it takes from each token's reward, or from its advantage. Set by
    # `algorithms.reference`.
    reference: np.ndarray = field(default_factory=not_computed)
    penalties: np.ndarray = field(default_factory=not_computed)
    # Index of its pair in the batch. Set by `algorithms.preference`.
    pair: int = 0

    def only(self, kept_K: np.ndarray) -> Row:
        """The row with only these of its trained tokens, at least one; the others are context. Its share is not new."""
        columns = {
            name: value[kept_K]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name != "token_ids" and len(value)
        }
        ends = np.cumsum([count for _, count in self.calls])
        counts = [int(part.sum()) for part in np.split(kept_K, ends[:-1])] if self.calls else []
        calls = tuple((name, count) for (name, _), count in zip(self.calls, counts, strict=True))
        return replace(self, **columns, calls=calls)


def with_shares(rows: Sequence[Row]) -> list[Row]:
    """Rows whose shares are right again after some were shortened or left out."""
    tokens = Counter[int]()
    for row in rows:
        tokens[row.trajectory] += len(row.positions)
    return [replace(row, share=len(row.positions) / tokens[row.trajectory]) for row in rows]


def joined_by_trajectory(
    rows: Sequence[Row], values: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], Callable[[Sequence[np.ndarray]], list[np.ndarray]]]:
    """Values [K] of each row as those of each trajectory [L], and how to cut such into those of the rows again."""
    members: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        members.setdefault(row.trajectory, []).append(index)

    def split(joined: Sequence[np.ndarray]) -> list[np.ndarray]:
        found: dict[int, np.ndarray] = {}
        for of, one in zip(members.values(), joined, strict=True):
            ends = np.cumsum([len(rows[index].positions) for index in of])
            found |= zip(of, np.split(one, ends[:-1]), strict=True)
        return [found[index] for index in range(len(rows))]

    return [np.concatenate([values[index] for index in of]) for of in members.values()], split


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
            len(self.positions) / trained_tokens,
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
        if owner is None or _is_context(call, episode):
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
        for token_id, trained in zip(token_ids, _demonstration_mask(call, where), strict=True):
            if trained:
                draft.sampled([token_id], [0.0], [UNSAMPLED])
                draft.drawn([WHOLE], 1.0, False)
            else:
                draft.token_ids.append(token_id)
    else:
        draft.sampled(token_ids, _logprobs(call, where), _versions(call, where, step))
        draft.drawn(_supports(call, where), _temperature(call.sampling), True)
    draft.calls.append((call.id, len(draft.positions) - trained_before))


def _demonstration_mask(call: types.ModelCall, where: str) -> list[bool]:
    if not call.demonstration_mask:
        return [True] * len(call.completion_ids)
    if len(call.demonstration_mask) != len(call.completion_ids):
        raise ContractError(
            f"{where}: {len(call.completion_ids)} completion ids but {len(call.demonstration_mask)} mask values"
        )
    return [value == 1 for value in call.demonstration_mask]


def _logprobs(call: types.ModelCall, where: str) -> list[float]:
    logprobs = list(call.logprobs)
    if len(logprobs) != len(call.completion_ids):
        raise ContractError(f"{where}: {len(call.completion_ids)} completion ids but {len(logprobs)} logprobs")
    if not all(map(math.isfinite, logprobs)):
        raise ContractError(f"{where}: a log-probability is not finite")
    return logprobs


def _supports(call: types.ModelCall, where: str) -> list[np.ndarray]:
    """The ids that each completion token was drawn from."""
    count, counts = len(call.completion_ids), list(call.support_counts)
    if not counts:
        return [WHOLE] * count
    if len(counts) != count or sum(counts) != len(call.support_ids):
        raise ContractError(
            f"{where}: {len(call.support_ids)} support ids in {len(counts)} supports of {count} completion ids"
        )
    supports = np.split(np.array(call.support_ids, dtype=np.int64), np.cumsum(counts)[:-1])
    for index, (token_id, support) in enumerate(zip(call.completion_ids, supports, strict=True)):
        if token_id not in support:
            raise ContractError(f"{where}: token {index} is not in its own support")
    return supports


def _versions(call: types.ModelCall, where: str, step: int) -> list[int]:
    """The label of each completion token. I5: a token outside every span is unlabelled and never trained."""
    count = len(call.completion_ids)
    versions = [UNSAMPLED] * count
    for span in call.version_spans:
        if not span.start <= span.end <= count:
            raise ContractError(f"{where}: version span [{span.start}, {span.end}) of {count} tokens")
        if span.policy_version > step:
            raise ContractError(f"{where}: version {span.policy_version} is newer than step {step} can have sampled")
        versions[span.start : span.end] = [span.policy_version] * (span.end - span.start)
    if UNSAMPLED in versions:
        raise ContractError(f"{where}: token {versions.index(UNSAMPLED)} of {count} has no policy version (I5)")
    return versions


def _require_trainable(episode: types.Episode) -> None:
    returns = [step.mc_return for one in episode.trajectories for step in one.steps]
    rewards = (episode.reward, *(one.reward for one in episode.trajectories), *returns)
    if not all(map(math.isfinite, rewards)):
        raise ContractError(f"{episode.id}: its reward is not finite")
    if any(abs(reward) > LARGEST_REWARD for reward in rewards):
        raise ContractError(f"{episode.id}: its reward is beyond ±{LARGEST_REWARD:.0f}")
    sampled = [call for call in episode.calls if call.completion_ids]
    if sampled and all(_is_context(call, episode) for call in sampled):
        why = (
            "every call was greedy (temperature 0) or drawn from a part of the vocabulary that its engine did not name"
        )
        raise ContractError(f"{episode.id}: none of its tokens can be trained: {why}")


def _is_context(call: types.ModelCall, episode: types.Episode) -> bool:
    """Whether it was drawn in a way that no step can train."""
    if episode.purpose == types.PURPOSE_DEMONSTRATION:
        return False
    is_unknown = _is_truncated(call.sampling) and not call.support_counts
    return is_unknown or not 0 < _temperature(call.sampling) < math.inf


def _is_truncated(sampling: types.Sampling) -> bool:
    is_whole = not sampling.HasField("top_p") or sampling.top_p >= 1
    return not is_whole or sampling.top_k > 0 or not sampling.min_p <= 0


def _temperature(sampling: types.Sampling) -> float:
    return sampling.temperature if sampling.HasField("temperature") else 1.0
