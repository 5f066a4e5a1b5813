# SPDX-License-Identifier: Apache-2.0
"""The compute of one step: what of its manifest can be trained, the check of its log-probabilities, the update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.algorithms.aggregation import counted_rows, with_gradient
from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.algorithms.kl import has_reference, in_advantage, in_reward
from whetstone_trainer.algorithms.proximal import anchor, is_local
from whetstone_trainer.algorithms.reference import with_reference
from whetstone_trainer.algorithms.values import value_metrics, with_values
from whetstone_trainer.backends.protocol import (
    OnShare,
    PolicyVersion,
    StepBatch,
    StepReport,
    TrainerBackend,
)
from whetstone_trainer.batch.logprob_check import LogprobCheck
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.usable import Batch, RowLimits, notices_of, usable_episodes
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.referred import paired_rows, reference_log_probabilities
from whetstone_trainer.service.step_metrics import Clock, batch_metrics, episode_metrics, role_metrics

# (phase, share in [0, 1], notices that hold now); may raise to stop the step.
OnProgress = Callable[..., None]


@dataclass(frozen=True)
class StepRequest:
    """A manifest as it was read, and the bodies of its entries or why they cannot be had."""

    manifest: events.BatchManifest
    # SHA-256 of the manifest's bytes.
    digest: str
    bodies: Sequence[bytes | TrainerError]
    read_seconds: float
    # When the step was done first.
    dropped_before: Sequence[jobs.DroppedEpisode] = ()


@dataclass
class Trained:
    """A step that is done in memory and not written yet."""

    batch: Batch
    # Those with a gradient.
    rows: Sequence[Row]
    metrics: dict[str, float]
    notices: list[wire.Notice]
    report: StepReport


@dataclass(frozen=True)
class _Columns:
    """A batch's rows with all that their losses read."""

    rows: Sequence[Row]
    # Those of them that have a gradient.
    learned: Sequence[Row]
    # Metrics of their anchors, importance/*; None: they get them in the training pass.
    anchored: dict[str, float] | None
    # Those of which the training pass tells log-probabilities under the policy that enters the step.
    passed: Sequence[Row] = ()


@dataclass(frozen=True)
class StepCompute:
    """One step of one job on a backend. `published`: the folder of a version, None if it is gone."""

    backend: TrainerBackend
    settings: TrainSettings
    limits: RowLimits
    published: Callable[[int], PolicyVersion | None]
    on_progress: OnProgress
    clock: Clock = field(default_factory=lambda: Clock({}))
    # Metrics of the step before, as its checkpoint has them.
    before: Mapping[str, float] = field(default_factory=dict)
    # Log-probabilities of a row's tokens under a version.
    scored: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def run(self, request: StepRequest) -> Trained:
        """Raises TrainerError; the model may be half trained then."""
        step = request.manifest.step
        self.on_progress("checking", 0.0)
        with self.clock.part("time/check"):
            given = (request.manifest, request.bodies, request.dropped_before, self.settings, self.limits)
            batch = usable_episodes(*given)
        with self.clock.part("time/train"):
            columns = self._columns(step, batch)
        with self.clock.part("time/check"):
            check = self._checked(step, batch, columns)
        self.on_progress("training", 0.0)
        with self.clock.part("time/train"):
            given = StepBatch(step, columns.rows, self.settings, columns.anchored is None)
            report = self.backend.step(given, self._shares("training"))
        with self.clock.part("time/check"):
            check.add(columns.rows, report.entering, step)
            check.score(check.suspects(columns.rows, report.entering), self._log_probabilities, lambda _: None)
        notices = notices_of(step, batch) + self._judged(step, check, batch)
        rows, learned = columns.rows, columns.learned
        metrics = check.metrics() | (columns.anchored or self._anchored_within(step, columns, report))
        metrics |= {**report.metrics, **value_metrics(rows)}
        metrics |= batch_metrics(step, batch.episodes, batch.trajectories, rows, learned)
        metrics |= role_metrics(batch.trajectories, rows, learned)
        metrics |= episode_metrics(batch.episodes)
        metrics["episodes_dropped"] = float(len(batch.dropped))
        return Trained(batch, learned, metrics, [*notices, *report.notices], report)

    def _shares(self, phase: str) -> OnShare:
        return lambda share: self.on_progress(phase, share)

    def _log_probabilities(self, rows: Sequence[Row], version: int, on_share: OnShare) -> Sequence[np.ndarray] | None:
        """As the backend's; what was computed for the check is not computed again for the anchor."""
        policy = self.published(version)
        if policy is None:
            return None
        missing = [row for row in rows if _scored_as(row, version) not in self.scored]
        found = self.backend.log_probabilities(missing, policy, on_share) if missing else []
        if found is None:
            return None
        for row, logprobs_K in zip(missing, found, strict=True):
            self.scored[_scored_as(row, version)] = logprobs_K
        return [self.scored[_scored_as(row, version)] for row in rows]

    def _checked(self, step: int, batch: Batch, columns: _Columns) -> LogprobCheck:
        """What the training pass will not tell. Raises TrainerError as `_judged`."""
        settings = self.settings
        check = LogprobCheck(batch.rows, settings.mismatch_bound, step, columns.passed)
        sample = check.sample(settings.mismatch_share, (settings.seed, step))
        check.score(sample, self._log_probabilities, self._shares("checking"))
        self._judged(step, check, batch)
        return check

    def _judged(self, step: int, check: LogprobCheck, batch: Batch) -> list[wire.Notice]:
        """Raises TrainerError for a token beyond the bound, or says it, as the job's `on_mismatch` wants."""
        bound, worst = self.settings.mismatch_bound, check.worst
        if worst is None or worst.difference <= bound:
            return []
        message = f"step {step}: {worst.describe(batch.episodes[worst.row.episode].id, bound)}"
        if self.settings.stop_on_mismatch:
            raise TrainerError("TRAINER_FAILED", message, reason="LogprobMismatch")
        return [wire.Notice(reason="LogprobMismatch", message=message)]

    def _columns(self, step: int, batch: Batch) -> _Columns:
        if self.settings.algorithm.preference is not None:
            pairs = paired_rows(batch, self.settings, self.backend)
            return _Columns(pairs, pairs, {})
        algorithm, metrics = self.settings.algorithm, dict[str, float]()
        rows, is_early = self._valued(batch), _is_of_all(algorithm.options)
        if is_early:
            rows, metrics = self._compared(step, rows)
        rows = with_advantages(rows, batch.trajectories, algorithm, self.settings.roles)
        computed = {id(row) for row in with_gradient(counted_rows(rows, algorithm), algorithm)}
        learned = [row for row in rows if id(row) in computed]
        if is_early:
            return _Columns(rows, learned, metrics)
        is_one_pass = self.settings.batching.mini_batches == 1 and self.settings.trains_policy(step)
        if is_one_pass and is_local(learned, algorithm):
            return _Columns(rows, learned, None, learned)
        compared, metrics = self._compared(step, learned)
        found = iter(compared)
        rows = [next(found) if id(row) in computed else row for row in rows]
        return _Columns(rows, compared, metrics, compared if is_one_pass else ())

    def _anchored_within(self, step: int, columns: _Columns, report: StepReport) -> dict[str, float]:
        """Metrics importance/* of rows that their training pass anchored."""
        of_row = {id(row): one for row, one in zip(columns.rows, report.entering, strict=True)}

        def present(stale: Sequence[Row]) -> Sequence[np.ndarray]:
            found = [of_row[id(row)] for row in stale]
            assert not any(one is None for one in found), "the pass is over all rows that have a gradient"
            return cast(Sequence[np.ndarray], found)

        _, metrics = anchor(columns.learned, step, self.settings.algorithm.options.correction, present)
        return metrics

    def _valued(self, batch: Batch) -> Sequence[Row]:
        """The rows beside the critic that enters the step, if there is one."""
        if not self.settings.critic_path:
            return batch.rows
        given = (batch.rows, batch.trajectories, self.settings.algorithm, self.settings.roles)
        return with_values(*given, lambda rows: self.backend.values(rows, lambda _: None))

    def _compared(self, step: int, rows: Sequence[Row]) -> tuple[list[Row], dict[str, float]]:
        """Rows beside the policy that enters the step, and beside the reference if there is one."""
        options = self.settings.algorithm.options

        def present(stale: Sequence[Row]) -> Sequence[np.ndarray]:
            logprobs = self._log_probabilities(stale, step, lambda _: None)
            assert logprobs is not None, "a backend always has its present version"
            return logprobs

        anchored, metrics = anchor(rows, step, options.correction, present)
        if not has_reference(options):
            return anchored, metrics
        given = (anchored, options, self.before)
        referred, of_reference = with_reference(
            *given, lambda of: reference_log_probabilities(of, self.settings, self.backend)
        )
        return referred, metrics | of_reference


def _is_of_all(options: jobs.PolicyGradient) -> bool:
    """Whether every row is compared, before advantages are made, or only those that have a gradient."""
    return (
        in_reward(options) or in_advantage(options) or bool(options.correction.reject) or options.correction.normalize
    )


def _scored_as(row: Row, version: int) -> tuple[int, int]:
    """Rows are copied when they get a column; their ids are not."""
    return id(row.token_ids), version
