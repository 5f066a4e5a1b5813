# SPDX-License-Identifier: Apache-2.0
"""Which episodes of a manifest a step can train, as trajectories and rows.

A manifest never changes, so one that lists an episode which cannot be trained would stop its job for good. Such an
episode is dropped: the result names it, the controller's record of the step voids it, group statistics do not see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.episode_rows import LARGEST_REWARD, episode_rows
from whetstone_trainer.batch.ingest import parse_episode
from whetstone_trainer.batch.rows import UNSAMPLED, Row
from whetstone_trainer.batch.trajectories import Trajectory, split_episode
from whetstone_trainer.contract.errors import ContractError, TrainerError
from whetstone_trainer.contract.settings import PAIR, TrainSettings

UNREADABLE, NOT_TRAINABLE, GROUP_INCOMPLETE = "Unreadable", "NotTrainable", "GroupIncomplete"
MAX_MESSAGE = 200
# An episode that can be trained, as trajectories and rows.
Read = tuple[types.Episode, list[Trajectory], list[Row]]


@dataclass(frozen=True)
class RowLimits:
    """What a model can compute."""

    # Token ids are below it.
    vocab_size: int
    # Most tokens of a sequence.
    context: int


@dataclass
class Batch:
    """What is left of a manifest. Indexes of trajectories and rows count what is left."""

    episodes: list[types.Episode] = field(default_factory=list)
    trajectories: list[Trajectory] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    # In the order of the manifest.
    dropped: list[jobs.DroppedEpisode] = field(default_factory=list)
    # Index of each group of which something is left.
    groups: dict[str, int] = field(default_factory=dict)

    def add(self, read: Read, group: str, baseline: float | None) -> None:
        episode, trajectories, rows = read
        index, first = len(self.episodes), len(self.trajectories)
        place = self.groups.setdefault(group, len(self.groups))
        self.episodes.append(episode)
        self.trajectories += [replace(one, episode=index, baseline=baseline) for one in trajectories]
        self.rows += [replace(row, episode=index, trajectory=first + row.trajectory, group=place) for row in rows]


def usable_episodes(
    manifest: events.BatchManifest,
    bodies: Sequence[bytes | TrainerError],
    dropped_before: Iterable[jobs.DroppedEpisode],
    settings: TrainSettings,
    limits: RowLimits,
) -> Batch:
    """`bodies`: of each entry, or why it cannot be had. `dropped_before`: when the step was done first."""
    known = {one.episode_id: one for one in dropped_before}
    found: list[Read | jobs.DroppedEpisode] = []
    for entry, body in zip(manifest.entries, bodies, strict=True):
        if entry.episode_id in known:
            found.append(known[entry.episode_id])
        elif isinstance(body, TrainerError):
            found.append(_dropped(entry, UNREADABLE, str(body)))
        else:
            try:
                found.append(_read(manifest, entry, body, settings, limits))
            except ContractError as error:
                found.append(_dropped(entry, NOT_TRAINABLE, str(error)))
    return _assembled(manifest, found, settings)


def notices_of(step: int, batch: Batch) -> list[wire.Notice]:
    """What the job's status says about what was dropped. That a step trained nothing, the controller says."""
    if not batch.dropped:
        return []
    one, count = batch.dropped[0], len(batch.dropped)
    of = count + len(batch.episodes)
    message = f"Step {step + 1} left out {count} of {of} episodes, the first is {one.episode_id}: {one.message}."
    return [wire.Notice(reason="EpisodesDropped", message=message)]


def _read(
    manifest: events.BatchManifest, entry: events.BatchEntry, body: bytes, settings: TrainSettings, limits: RowLimits
) -> Read:
    episode = parse_episode(manifest.job, entry, body, settings.mask_deadline)
    if not any(call.completion_ids for call in episode.calls):
        raise ContractError(f"{episode.id}: no token of it was sampled")
    split = split_episode(episode, 0, entry.group, settings.roles)
    rows = episode_rows(episode, 0, manifest.step, split.owners)
    for row in rows:
        _require_computable(row, episode.id, limits)
        _require_fresh(row, episode.id, manifest.step, settings.max_policy_lag)
    return episode, split.trajectories, rows


def _require_computable(row: Row, episode: str, limits: RowLimits) -> None:
    largest = max(int(ids.max()) for ids in (row.token_ids, *row.support) if len(ids))
    tokens = row.positions[-1] + 1
    if largest >= limits.vocab_size:
        raise ContractError(f"{episode}: token id {largest} is not below {limits.vocab_size}")
    if tokens > limits.context:
        raise ContractError(f"{episode}: a row of {tokens} tokens is longer than the {limits.context} of the model")


def _require_fresh(row: Row, episode: str, step: int, max_policy_lag: int) -> None:
    """Admission makes a stale token impossible (I3); if there is one all the same, it must not be trained."""
    sampled_N = row.versions[row.versions != UNSAMPLED]
    if len(sampled_N) and sampled_N.min() < step - max_policy_lag:
        lag = f"step {step} trains versions from {step - max_policy_lag} on"
        raise ContractError(f"{episode}: a token was sampled by version {sampled_N.min()}, {lag} (I3)")


def _assembled(
    manifest: events.BatchManifest, found: Sequence[Read | jobs.DroppedEpisode], settings: TrainSettings
) -> Batch:
    """What was read, less the groups that are not trained."""
    baselines = {one.group: one.reward for one in manifest.baselines}
    members: dict[str, list[Read | jobs.DroppedEpisode]] = {}
    for entry, one in zip(manifest.entries, found, strict=True):
        members.setdefault(entry.group, []).append(one)
    faults = {group: _fault(group, of, baselines.get(group), settings) for group, of in members.items()}
    batch = Batch()
    for entry, one in zip(manifest.entries, found, strict=True):
        if isinstance(one, jobs.DroppedEpisode):
            batch.dropped.append(one)
        elif fault := faults[entry.group]:
            batch.dropped.append(_dropped(entry, *fault))
        else:
            batch.add(one, entry.group, baselines.get(entry.group))
    return batch


def _fault(
    group: str, members: Sequence[Read | jobs.DroppedEpisode], baseline: float | None, settings: TrainSettings
) -> tuple[str, str] | None:
    """Reason and message if the group is dropped whole, as one that lost more members than its job allows."""
    kept = [one for one in members if not isinstance(one, jobs.DroppedEpisode)]
    if baseline is not None and not abs(baseline) <= LARGEST_REWARD:
        return GROUP_INCOMPLETE, f"the baseline of group {group} has the reward {baseline}"
    if len(kept) < len(members) and len(kept) < settings.fewest_members:
        return GROUP_INCOMPLETE, f"{len(kept)} of group {group} are left, it needs {settings.fewest_members}"
    if settings.algorithm.preference is not None and (fault := _fault_of_pair(kept)):
        return NOT_TRAINABLE, f"group {group} is no pair: {fault}"
    return None


def _fault_of_pair(members: Sequence[Read]) -> str:
    """Empty if one of two was chosen, and the other one rejected."""
    if len(members) != PAIR:
        return f"it has {len(members)} conversations"
    for episode, _, rows in members:
        if not rows:
            return f"no token of {episode.id} is trained"
    (chosen, _, _), (rejected, _, _) = members
    if chosen.reward == rejected.reward:
        return f"both conversations have the reward {chosen.reward}, so none of them is chosen"
    ours, theirs = ([(row.token_ids.tolist(), row.positions.tolist()) for row in rows] for _, _, rows in members)
    return "both conversations are the same" if ours == theirs else ""


def _dropped(entry: events.BatchEntry, reason: str, message: str) -> jobs.DroppedEpisode:
    return jobs.DroppedEpisode(episode_id=entry.episode_id, reason=reason, message=message[:MAX_MESSAGE])
