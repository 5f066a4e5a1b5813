# SPDX-License-Identifier: Apache-2.0
"""The protocol, by PyTorch in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import ModelError
from whetstone_models.folder import WeightsForm, has_weights
from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.local.critic import Critic
from whetstone_trainer.backends.local.critic_learner import train_critic
from whetstone_trainer.backends.local.first_pass import FirstPass
from whetstone_trainer.backends.local.forward import computed
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.memory import TokenBudget, recompute_activations
from whetstone_trainer.backends.local.models import LocalModels, Models
from whetstone_trainer.backends.local.optimizer import make_optimizer, optimizer_tensors
from whetstone_trainer.backends.local.optimizer_file import read_optimizer, write_optimizer
from whetstone_trainer.backends.local.policy import Policy, TransformerPolicy
from whetstone_trainer.backends.local.preference_learner import train_pairs
from whetstone_trainer.backends.local.repeatable import compute_repeatably
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
from whetstone_trainer.batch.usable import RowLimits
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings

M = TypeVar("M", Policy, Critic)


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
    # Versions that sampled tokens of the present batch, as long as they are asked for: a copy of all weights each.
    older: dict[int, Policy] = field(default_factory=dict)
    # What divergences are measured from: never trained, in memory once.
    reference: Policy | None = None
    # Absent: no estimator of the job asks for values.
    critic: Critic | None = None

    @property
    def form(self) -> WeightsForm:
        """Of what it publishes."""
        published = self.settings.published
        return WeightsForm(getattr(torch, published.dtype), published.shard_bytes)

    @property
    def finer(self) -> TransformerPolicy | None:
        """The policy, where published weights do not say all of it. An adapter's file always does."""
        policy = self.policy
        is_finer = self.settings.published.dtype != "float32" and policy.adapter is None
        return policy if is_finer and isinstance(policy, TransformerPolicy) else None

    def forget(self) -> None:
        """What a restore replaces, so that it is not in memory twice."""
        self.older.clear()
        for optimizer in (self.optimizer, *([self.critic.optimizer] if self.critic else [])):
            optimizer.zero_grad(set_to_none=True)
            optimizer.state.clear()


class LocalBackend:
    """A TrainerBackend on a CPU or one GPU; with other `models`, one rank of several."""

    def __init__(
        self, device: torch.device, compute: torch.dtype = torch.float32, models: Models | None = None
    ) -> None:
        """`compute`: the type of matrix products. Weights, optimizer and what is published stay float32."""
        compute_repeatably(device)
        self._models: Models = models or LocalModels(device, compute)
        self._job: _Job | None = None

    @property
    def device(self) -> str:
        return self._models.device.type

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        self._job = None
        self._models.arrange(settings.sharding)
        try:
            policy = self._models.policy(model, on_bytes)
        except ModelError as error:
            raise SettingsError("model.path", f"{model}: {error}") from error
        if settings.published.dtype != "float32" and not isinstance(policy, TransformerPolicy):
            reason = "must be float32 for a model that our own transformer does not hold, as with the backend verl"
            raise SettingsError("weights.dtype", reason)
        if settings.batching.recompute_activations:
            recompute_activations(policy.module, settings.algorithm.name)
        reference = self._reference(settings, policy, model, on_bytes)
        critic = self._critic(settings, policy, on_bytes)
        if settings.lora is not None:
            self._models.adapt(policy, settings, model)
        optimizer = make_optimizer(policy.module, settings.optimizer)
        models = [policy.module, *([critic.module] if critic else [])]
        budget = TokenBudget(settings.batching.micro_batch_tokens, models, self._models.ranks)
        self._job = _Job(settings, model, policy, optimizer, budget, reference=reference, critic=critic)
        parameters = sum(one.numel() for one in policy.module.parameters() if one.requires_grad)
        return LoadedModel(parameters, RowLimits(policy.vocab_size, policy.context), tuple(policy.notices))

    def _reference(self, settings: TrainSettings, policy: Policy, model: Path, on_bytes: OnBytes) -> Policy | None:
        """Of a job with an adapter that starts from its own model: those very weights, without the adapter."""
        if not settings.reference_path:
            return None
        if settings.lora is not None and Path(settings.reference_path).absolute() == model.absolute():
            policy.module.requires_grad_(False)
            return policy.frozen()
        is_of_pairs = settings.algorithm.preference is not None
        setting = "algorithm.dpo.reference" if is_of_pairs else "algorithm.policyGradient.kl.model"
        reference = self._other(
            settings.reference_path, setting, policy, lambda one: self._models.policy(one, on_bytes)
        )
        reference.module.requires_grad_(False)
        return reference

    def _critic(self, settings: TrainSettings, policy: Policy, on_bytes: OnBytes) -> Critic | None:
        if not settings.critic_path:
            return None
        setting, options = "algorithm.policyGradient.critic.model", settings.algorithm.options.critic
        critic = self._other(
            settings.critic_path, setting, policy, lambda one: self._models.critic(one, options, on_bytes)
        )
        if settings.batching.recompute_activations:
            recompute_activations(critic.module, settings.algorithm.name)
        return critic

    def _other(self, path: str, setting: str, policy: Policy, load: Callable[[Path], M]) -> M:
        """A further model of the job. Raises SettingsError at `setting`, as for ids that are not the policy's."""
        folder = Path(path).absolute()
        try:
            other = load(folder)
        except ModelError as error:
            raise SettingsError(setting, f"{folder}: {error}") from error
        if other.vocab_size != policy.vocab_size:
            raise SettingsError(
                setting, f"{folder}: has {other.vocab_size} token ids, the job's model has {policy.vocab_size}"
            )
        return other

    def restore(self, checkpoint: Checkpoint, on_bytes: OnBytes) -> None:
        job = self._held()
        job.forget()
        whole = checkpoint.state if checkpoint.state and has_weights(checkpoint.state) else None
        _read(job.policy, whole or checkpoint.policy.weights, on_bytes)
        optimizer = make_optimizer(job.policy.module, job.settings.optimizer)
        if checkpoint.state is not None:
            read_optimizer(checkpoint.state, job.policy.module, optimizer, on_bytes)
        if checkpoint.state is None:
            job.critic = self._critic(job.settings, job.policy, on_bytes)
        elif job.critic is not None:
            job.critic.read(checkpoint.state, on_bytes)
        job.optimizer, job.version = optimizer, checkpoint.policy.version

    def log_probabilities(
        self, rows: Sequence[Row], policy: PolicyVersion | ReferencePolicy, on_share: OnShare
    ) -> list[np.ndarray]:
        scorer = self._policy_of(policy)
        return computed(rows, self._held().budget, scorer.cut, lambda micro: scorer.score(micro)[0], on_share)

    def predictions(self, rows: Sequence[Row], policy: PolicyVersion, on_share: OnShare) -> list[np.ndarray]:
        scorer = self._policy_of(policy)
        return computed(rows, self._held().budget, scorer.cut, scorer.predict, on_share)

    def values(self, rows: Sequence[Row], on_share: OnShare) -> list[np.ndarray]:
        job = self._held()
        assert job.critic is not None, "it is loaded when the job is configured"
        return computed(rows, job.budget, job.critic.cut, job.critic.values, on_share)

    def step(self, batch: StepBatch, on_share: OnShare) -> StepReport:
        job, settings = self._held(), batch.settings
        torch.manual_seed(hash((settings.seed, batch.step)) & 0x7FFFFFFF)
        job.older.clear()
        first = FirstPass(batch.step, settings.algorithm.options.correction if batch.anchors_itself else None)
        metrics = self._train(job, batch, on_share, first)
        job.version = batch.step + 1
        halved = job.budget.take_halved()
        if job.reference is not None:
            held = {id(one) for one in job.policy.module.parameters()}
            own = [one for one in job.reference.module.parameters() if id(one) not in held]
            metrics["kl/reference_bytes"] = float(_tensor_bytes(own))
        state = [*optimizer_tensors(job.optimizer), *(job.critic.tensors() if job.critic else ())]
        return StepReport(
            {**metrics, "micro_batch_tokens": float(job.budget.tokens), "out_of_memory": float(halved)},
            [_out_of_memory(batch.step, job.budget.tokens)] if halved else [],
            _tensor_bytes(job.policy.module.parameters()),
            _tensor_bytes([*state, *(job.finer.module.parameters() if job.finer else ())]),
            self._of_rows(batch.rows, first),
        )

    def _of_rows(self, rows: Sequence[Row], first: FirstPass) -> list[np.ndarray | None]:
        own = {index: first.logprobs[id(row)] for index, row in enumerate(rows) if id(row) in first.logprobs}
        found = self._models.ranks.joined(own)
        return [found.get(index) for index in range(len(rows))]

    def _train(self, job: _Job, batch: StepBatch, on_share: OnShare, first: FirstPass) -> dict[str, float]:
        """The critic, if there is one, then the policy, which has to wait until the critic has warmed up."""
        given = (job.policy, job.optimizer, batch.rows, batch.settings, batch.step)
        if batch.settings.algorithm.preference is not None:
            return train_pairs(*given, on_share, job.budget)
        if job.critic is None:
            return train_rows(*given, on_share, job.budget, first)
        given = (job.critic, batch.rows, batch.settings, batch.step)
        of_critic = train_critic(*given, lambda share: on_share(share / 2), job.budget)
        learned = batch.rows if batch.settings.trains_policy(batch.step) else []
        given = (job.policy, job.optimizer, learned, batch.settings, batch.step)
        return of_critic | train_rows(*given, lambda share: on_share((1 + share) / 2), job.budget, first)

    def save(self, directory: Path) -> None:
        job = self._held()
        write_optimizer(directory, job.policy.module, job.optimizer, self._models.ranks)
        if job.critic is not None:
            job.critic.write(directory)
        if job.finer is not None:
            job.finer.write_bare(directory)

    def publish(self, directory: Path, version: int) -> None:
        job = self._held()
        job.policy.write(directory, version, job.source, job.form)

    def adopt(self, policy: PolicyVersion) -> None:
        try:
            self._held().policy.keep_finer(policy.weights)
        except ModelError as error:
            raise _unreadable(policy.weights, error) from error

    def close(self) -> None:
        """Nothing of it is outside of this process."""

    def _policy_of(self, policy: PolicyVersion | ReferencePolicy) -> Policy:
        """An older one is read from its folder."""
        job = self._held()
        if isinstance(policy, ReferencePolicy):
            assert job.reference is not None, "it is loaded when the job is configured"
            return job.reference
        if policy.version == job.version:
            return job.policy
        if policy.version not in job.older:
            job.older[policy.version] = self._read_older(job, policy.weights)
        return job.older[policy.version]

    def _read_older(self, job: _Job, weights: Path) -> Policy:
        older = job.policy.frozen() if job.policy.adapter is not None else None
        if older is not None:
            _read(older, weights)
            return older
        try:
            return self._models.policy(weights)
        except ModelError as error:
            raise _unreadable(weights, error) from error

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
        "(algorithm.<kind>.batching.microBatchTokens), and if one sequence alone did not fit, the pass back computes "
        "the inside of the layers once more. The gradient is the same, a step takes longer."
    )
    return wire.Notice(reason="OutOfMemory", message=message)
