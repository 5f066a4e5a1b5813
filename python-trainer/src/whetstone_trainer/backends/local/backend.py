# SPDX-License-Identifier: Apache-2.0
"""The protocol, by PyTorch in this process."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import ModelError
from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.memory import TokenBudget, each_that_fits
from whetstone_trainer.backends.local.optimizer import make_optimizer, optimizer_tensors
from whetstone_trainer.backends.local.optimizer_file import read_optimizer, write_optimizer
from whetstone_trainer.backends.local.policy import Policy, load_policy
from whetstone_trainer.backends.protocol import (
    Checkpoint,
    LoadedModel,
    OnShare,
    PolicyVersion,
    ReferencePolicy,
    StepBatch,
    StepReport,
)
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings


@dataclass
class _Job:
    """What is in memory for a job: `policy` is version `version`."""

    settings: TrainSettings
    # The user's model folder.
    source: Path
    policy: Policy
    optimizer: torch.optim.Optimizer
    budget: TokenBudget
    version: int = 0
    # Versions that tokens may still be labelled with.
    older: dict[int, Policy] = field(default_factory=dict)
    # What divergences are measured from: never trained, in memory once.
    reference: Policy | None = None

    def keep_present(self, max_policy_lag: int) -> None:
        """Before training changes it: later batches may hold tokens that this version sampled."""
        oldest = self.version + 1 - max_policy_lag
        self.older = {version: policy for version, policy in self.older.items() if version >= oldest}
        if self.version >= oldest:
            self.older[self.version] = copy.deepcopy(self.policy)


class LocalBackend:
    """A TrainerBackend on a CPU or one GPU."""

    def __init__(self, device: torch.device, compute: torch.dtype = torch.float32) -> None:
        """`compute`: the type of matrix products. Weights, optimizer and what is published stay float32."""
        self._device, self._compute = device, compute
        self._job: _Job | None = None

    @property
    def device(self) -> str:
        return self._device.type

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        self._job = None
        try:
            policy = load_policy(model, self._compute, self._device, on_bytes)
        except ModelError as error:
            raise SettingsError("model.path", f"{model}: {error}") from error
        reference = self._reference(settings, policy, on_bytes)
        optimizer = make_optimizer(policy.module, settings.optimizer)
        budget = TokenBudget(settings.batching.micro_batch_tokens)
        self._job = _Job(settings, model, policy, optimizer, budget, reference=reference)
        parameters = sum(one.numel() for one in policy.module.parameters())
        return LoadedModel(parameters, policy.vocab_size, tuple(policy.notices))

    def _reference(self, settings: TrainSettings, policy: Policy, on_bytes: OnBytes) -> Policy | None:
        if not settings.reference_path:
            return None
        folder, path = Path(settings.reference_path).absolute(), "algorithm.policyGradient.kl.model"
        try:
            reference = load_policy(folder, self._compute, self._device, on_bytes)
        except ModelError as error:
            raise SettingsError(path, f"{folder}: {error}") from error
        if reference.vocab_size != policy.vocab_size:
            raise SettingsError(
                path, f"{folder}: has {reference.vocab_size} token ids, the job's model has {policy.vocab_size}"
            )
        reference.module.requires_grad_(False)
        return reference

    def restore(self, checkpoint: Checkpoint, on_bytes: OnBytes) -> None:
        job = self._held()
        _read(job.policy, checkpoint.policy.weights, on_bytes)
        optimizer = make_optimizer(job.policy.module, job.settings.optimizer)
        if checkpoint.state is not None:
            optimizer.load_state_dict(read_optimizer(checkpoint.state, self._device, on_bytes))
        job.optimizer, job.version = optimizer, checkpoint.policy.version
        job.older.clear()

    def log_probabilities(
        self, rows: Sequence[Row], policy: PolicyVersion | ReferencePolicy, on_share: OnShare
    ) -> list[np.ndarray]:
        scorer, found = self._policy_of(policy), dict[int, np.ndarray]()
        with torch.inference_mode():
            for micro, (logprobs_M, _) in each_that_fits(rows, self._held().budget, scorer.cut, scorer.score):
                logprobs_N = logprobs_M[micro.token_of_N].cpu().numpy()
                bounds = np.cumsum([len(row.positions) for row in micro.rows])[:-1]
                for row, part in zip(micro.rows, np.split(logprobs_N, bounds), strict=True):
                    found[id(row)] = part
                on_share(min(1.0, len(found) / len(rows)))
        return [found[id(row)] for row in rows]

    def step(self, batch: StepBatch, on_share: OnShare) -> StepReport:
        job, settings = self._held(), batch.settings
        torch.manual_seed(hash((settings.seed, batch.step)) & 0x7FFFFFFF)
        job.keep_present(settings.max_policy_lag)
        given = (job.policy, job.optimizer, batch.rows, settings, batch.step)
        metrics = train_rows(*given, on_share, job.budget)
        job.version = batch.step + 1
        halved = job.budget.take_halved()
        if job.reference is not None:
            metrics["kl/reference_bytes"] = float(_tensor_bytes(job.reference.module.parameters()))
        return StepReport(
            {**metrics, "micro_batch_tokens": float(job.budget.tokens), "out_of_memory": float(halved)},
            [_out_of_memory(batch.step, job.budget.tokens)] if halved else [],
            _tensor_bytes(job.policy.module.parameters()),
            _tensor_bytes(optimizer_tensors(job.optimizer)),
        )

    def save(self, directory: Path) -> None:
        write_optimizer(directory, self._held().optimizer)

    def publish(self, directory: Path, version: int) -> None:
        job = self._held()
        job.policy.write(directory, version, job.source)

    def adopt(self, policy: PolicyVersion) -> None:
        _read(self._held().policy, policy.weights)

    def _policy_of(self, policy: PolicyVersion | ReferencePolicy) -> Policy:
        """An older one is read from its folder after a restart."""
        job = self._held()
        if isinstance(policy, ReferencePolicy):
            assert job.reference is not None, "it is loaded when the job is configured"
            return job.reference
        if policy.version == job.version:
            return job.policy
        if policy.version not in job.older:
            try:
                job.older[policy.version] = load_policy(policy.weights, self._compute, self._device)
            except ModelError as error:
                raise _unreadable(policy.weights, error) from error
        return job.older[policy.version]

    def _held(self) -> _Job:
        if self._job is None:
            raise TrainerError("UNAVAILABLE", "the trainer holds no model; call Configure, then repeat")
        return self._job


def _read(policy: Policy, weights: Path, on_bytes: OnBytes = unheard) -> None:
    try:
        policy.read(weights, on_bytes)
    except ModelError as error:
        raise _unreadable(weights, error) from error


def _unreadable(weights: Path, error: ModelError) -> TrainerError:
    return TrainerError("DATA_LOSS", f"{weights}: {error}")


def _tensor_bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _out_of_memory(step: int, tokens: int) -> wire.Notice:
    message = (
        f"Step {step + 1}: a micro-batch did not fit into memory; passes are of at most {tokens} tokens from now on "
        "(algorithm.<kind>.batching.microBatchTokens). The gradient is the same, a step takes longer."
    )
    return wire.Notice(reason="OutOfMemory", message=message)
