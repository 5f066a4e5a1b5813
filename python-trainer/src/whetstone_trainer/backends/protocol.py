# SPDX-License-Identifier: Apache-2.0
"""What the service asks of whatever holds the model: nothing else of a backend is used.

A backend owns weights and optimizer and moves them. It knows neither gRPC nor NATS, nor which episodes a row came from,
nor where a run keeps its checkpoints: it computes on rows and writes into folders that it is given. Calls come from one
thread, one at a time. After an exception of `step`, `adopt` or `restore` the model may be half changed: the caller
restores before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.reading import OnBytes
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.usable import RowLimits
from whetstone_trainer.contract.settings import TrainSettings

# Told the share of the work that is done, in [0, 1]; may raise to stop it.
OnShare = Callable[[float], None]


@dataclass(frozen=True)
class LoadedModel:
    """What a backend says of the model that it was given."""

    # Numbers that training moves.
    parameters: int
    limits: RowLimits
    # What people should know, such as a model that cannot be packed.
    notices: tuple[wire.Notice, ...] = ()


@dataclass(frozen=True)
class PolicyVersion:
    """A published version: its number, and its folder in Hugging Face layout."""

    version: int
    weights: Path


@dataclass(frozen=True)
class ReferencePolicy:
    """What divergences are measured from: a folder in Hugging Face layout, the same for the whole job."""

    weights: Path


@dataclass(frozen=True)
class Checkpoint:
    """A version to go back to."""

    policy: PolicyVersion
    # The folder that `save` wrote into. Absent for version 0: the optimizer starts anew.
    state: Path | None


@dataclass(frozen=True)
class StepBatch:
    """What one step trains: version `step` becomes version `step + 1`."""

    step: int
    # All of the batch, with the columns that a step computes.
    rows: Sequence[Row]
    settings: TrainSettings
    # Rows are not anchored yet: `algorithms.proximal.anchor` gets what the first pass over them computes. They must be
    # one mini-batch, and `is_local`.
    anchors_itself: bool = False


@dataclass(frozen=True)
class StepReport:
    """What a step did."""

    # By name, see docs/metrics.md: loss, gradient norm and what else the backend measures.
    metrics: Mapping[str, float]
    # What was not as it should be, though the step is done.
    notices: Sequence[wire.Notice]
    # What `publish` and `save` will write, about; told to people when a disk is full.
    weights_bytes: int
    state_bytes: int
    # Log-probabilities of the trained tokens [K] of each row under the policy that entered the step, as the pass before
    # the first optimizer step computed them; None of rows that were not in it.
    entering: Sequence[np.ndarray | None]


class TrainerBackend(Protocol):
    """Weights and optimizer of one job."""

    @property
    def device(self) -> str:
        """Where it computes: "cpu" or "cuda"."""
        ...

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        """Loads a job's model folder as version 0, with a new optimizer; what it held for another job is let go first.

        `on_bytes` is told how many bytes were read since the last call, and may raise to stop.
        Raises SettingsError at model.path for a model that cannot be trained, at algorithm.policyGradient.kl.model or
        algorithm.dpo.reference for a reference (`settings.reference_path`) that cannot be asked, at
        algorithm.policyGradient.critic.model for a critic's start (`settings.critic_path`), TrainerError for weights
        that are not finite.
        """
        ...

    def restore(self, checkpoint: Checkpoint, on_bytes: OnBytes) -> None:
        """Makes a checkpoint of this job the present. Raises TrainerError DATA_LOSS if its files cannot be read."""
        ...

    def log_probabilities(
        self, rows: Sequence[Row], policy: PolicyVersion | ReferencePolicy, on_share: OnShare
    ) -> Sequence[np.ndarray] | None:
        """Of the trained tokens [K] of each row, float32, nats: log softmax(logits / temperature).

        None: it has no way to compute them under that version any more. The present one and the
        job's reference it always has.
        Raises TrainerError if a row alone does not fit into memory.
        """
        ...

    def predictions(self, rows: Sequence[Row], policy: PolicyVersion, on_share: OnShare) -> Sequence[np.ndarray]:
        """Of the trained tokens of each row, [K, 2] float32: as `log_probabilities`, and 1 where none is likelier.

        Raises TrainerError if a row alone does not fit into memory, DATA_LOSS if the version's weights are gone.
        """
        ...

    def values(self, rows: Sequence[Row], on_share: OnShare) -> Sequence[np.ndarray]:
        """Of the trained tokens [K] of each row, float32: the present critic's. Of jobs with one (`critic_path`) only.

        Raises TrainerError if a row alone does not fit into memory.
        """
        ...

    def step(self, batch: StepBatch, on_share: OnShare) -> StepReport:
        """Moves weights and optimizer by one batch; without any gradient nothing moves, the version is counted.

        A critic moves, too, on the rows that have returns; in its warm-up only the critic does.

        The gradient does not depend on how the backend cuts or packs the rows (I10). Raises TrainerError for a row
        that does not fit into memory, and for a gradient or weights that are not finite.
        """
        ...

    def save(self, directory: Path) -> None:
        """Writes what `restore` needs beside the weights (optimizer, critic), as plain files, into an empty folder.

        The caller flushes them, takes their digests and gives the folder its name.
        """
        ...

    def publish(self, directory: Path, version: int) -> None:
        """Writes the present weights as a folder in Hugging Face layout with its manifest, at once or not at all.

        Raises FileExistsError: a version is immutable.
        """
        ...

    def adopt(self, policy: PolicyVersion) -> None:
        """Replaces the weights, not the optimizer, by published ones: of this step, from a run that was cut short.

        Engines may serve them already. Raises TrainerError DATA_LOSS if they cannot be read.
        """
        ...

    def close(self) -> None:
        """Ends what it runs outside of this process. Safe to call again; nothing else may be called after."""
        ...
