# SPDX-License-Identifier: Apache-2.0
"""The part of a JobSpec that the trainer acts on, checked once and with every default filled in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages import ESTIMATOR_OF
from whetstone_trainer.contract.errors import SettingsError

AGGREGATIONS = {
    jobs.LOSS_AGGREGATION_UNSPECIFIED: "token-mean",
    jobs.LOSS_AGGREGATION_TOKEN_MEAN: "token-mean",
    jobs.LOSS_AGGREGATION_TOKEN_SUM: "token-sum",
    jobs.LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM: "seq-mean-token-sum",
    jobs.LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM_NORM: "seq-mean-token-sum-norm",
    jobs.LOSS_AGGREGATION_SEQ_MEAN_TOKEN_MEAN: "seq-mean-token-mean",
}


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW; defaults as in jobs.v1.Optimizer."""

    learning_rate: float = 1e-5
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.0
    gradient_clip: float = 1.0
    warmup_steps: int = 0
    final_rate_share: float = 1.0


@dataclass(frozen=True)
class BatchingSettings:
    """How a batch is cut; micro_batch_tokens counts padding."""

    mini_batches: int = 1
    epochs: int = 1
    micro_batch_tokens: int = 16_384


@dataclass(frozen=True)
class AlgorithmSettings:
    """Names look up `algorithms.advantages` and `algorithms.losses`; numbers are their arguments."""

    name: str
    advantage: str
    token_loss: str
    aggregation: str = "token-mean"
    # Groups with fewer members get advantage 0; 1 for algorithms without group statistics.
    min_group: int = 1
    normalize_by_std: bool = True
    clip_low: float = 0.2
    clip_high: float = 0.2
    # Absent: off.
    clip_dual: float | None = None
    entropy_coefficient: float = 0.0
    # Of decoupled PPO's importance weights; 0: the ratio is taken to the policy that sampled.
    importance_cap: float = 0.0
    # Absent: the batch's longest row.
    loss_scale_factor: float | None = None


@dataclass(frozen=True)
class RoleSettings:
    """One role; roles that the job does not list are trained with the job's own estimator."""

    # Looks up `algorithms.advantages`.
    advantage: str
    # Groups with fewer members get advantage 0.
    min_group: int
    # False: its tokens are context.
    trained: bool = True


@dataclass(frozen=True)
class TrainSettings:
    """Everything one training step needs to know about its job."""

    job: str
    model_path: str
    seed: int
    steps: int
    max_policy_lag: int
    checkpoint_every: int
    checkpoints_kept: int
    mask_deadline: bool
    algorithm: AlgorithmSettings
    optimizer: OptimizerSettings
    batching: BatchingSettings
    # By name; only those that the job lists.
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    # A group that lost members is trained if so many are left.
    fewest_members: int = 1
    # Nats; a token further off fails the step, or only shows.
    mismatch_bound: float = 1.0
    stop_on_mismatch: bool = True


def parse_settings(spec: jobs.JobSpec) -> TrainSettings:
    """Raises SettingsError naming the first field that cannot be honoured."""
    _require(bool(spec.name), "name", "is required")
    _require(bool(spec.model.path), "model.path", "is required")
    kind = spec.algorithm.WhichOneof("kind")
    _require(kind is not None, "algorithm", "is required: sft or grpo")
    chosen = spec.algorithm.sft if kind == "sft" else spec.algorithm.grpo
    loop = spec.loop
    algorithm = AlgorithmSettings("sft", "constant", "nll") if kind == "sft" else _grpo(spec)
    return TrainSettings(
        job=spec.name,
        model_path=spec.model.path,
        seed=spec.seed,
        steps=loop.steps,
        max_policy_lag=loop.max_policy_lag,
        checkpoint_every=loop.checkpoint_every if loop.HasField("checkpoint_every") else 1,
        checkpoints_kept=loop.checkpoints_kept if loop.HasField("checkpoints_kept") else 2,
        mask_deadline=loop.deadline_policy == jobs.DEADLINE_POLICY_MASK,
        fewest_members=_fewest_members(spec),
        mismatch_bound=_mismatch_bound(loop),
        stop_on_mismatch=loop.on_mismatch != jobs.MISMATCH_POLICY_WARN,
        algorithm=algorithm,
        optimizer=_optimizer(chosen.optimizer, f"algorithm.{kind}.optimizer"),
        batching=_batching(chosen.batching, f"algorithm.{kind}.batching"),
        roles=_roles(spec, algorithm),
    )


def _mismatch_bound(loop: jobs.Loop) -> float:
    bound = loop.mismatch_bound if loop.HasField("mismatch_bound") else 1.0
    _require(bound > 0 and math.isfinite(bound), "loop.mismatchBound", "must be above 0 and finite")
    _require(loop.on_mismatch in jobs.MismatchPolicy.values(), "loop.onMismatch", f"{loop.on_mismatch} is unknown")
    return bound


def _fewest_members(spec: jobs.JobSpec) -> int:
    """As `keepsGroup` in the controller's loop/batch/batch.ts: `drop` and `complete` list whole groups only."""
    policy = spec.loop.group_policy
    match policy.WhichOneof("kind"):
        case "partial":
            return policy.partial.min_size
        case None:
            return 2 if spec.algorithm.WhichOneof("kind") == "grpo" else 1
        case _:
            return max(1, spec.algorithm.grpo.group_size)


def _roles(spec: jobs.JobSpec, algorithm: AlgorithmSettings) -> dict[str, RoleSettings]:
    roles: dict[str, RoleSettings] = {}
    for index, role in enumerate(spec.roles):
        path = f"roles[{index}]"
        _require(bool(role.name), f"{path}.name", "is required")
        _require(role.name not in roles, f"{path}.name", f'"{role.name}" is taken by another role')
        is_default = role.advantage == types.ADVANTAGE_ESTIMATOR_UNSPECIFIED
        _require(is_default or role.advantage in ESTIMATOR_OF, f"{path}.advantage", f"{role.advantage} is unknown")
        _require(algorithm.name != "sft" or is_default, f"{path}.advantage", "SFT has no advantages")
        roles[role.name] = _role(role, algorithm)
    return roles


def _role(role: types.Role, algorithm: AlgorithmSettings) -> RoleSettings:
    trained = not (role.frozen or role.HasField("model"))
    if algorithm.name == "sft":
        return RoleSettings(algorithm.advantage, algorithm.min_group, trained)
    estimator = ESTIMATOR_OF[role.advantage or types.ADVANTAGE_ESTIMATOR_GRPO]
    # `partial` asks for more members than an estimator that compares them needs; one that does not compare needs none.
    min_group = algorithm.min_group if estimator.compares else estimator.fewest_members
    return RoleSettings(estimator.name, min_group, trained)


def _grpo(spec: jobs.JobSpec) -> AlgorithmSettings:
    grpo, path = spec.algorithm.grpo, "algorithm.grpo"
    policy = spec.loop.group_policy
    partial = policy.partial.min_size if policy.WhichOneof("kind") == "partial" else 2
    clip_dual = grpo.clip_dual if grpo.HasField("clip_dual") else 0.0
    _require(grpo.loss_aggregation in AGGREGATIONS, f"{path}.lossAggregation", f"{grpo.loss_aggregation} is unknown")
    _require(clip_dual == 0 or 1 < clip_dual <= 1e6, f"{path}.clipDual", "must be in (1, 1e6], or 0 for off")
    settings = AlgorithmSettings(
        name="grpo",
        advantage="grpo",
        token_loss="clipped",
        aggregation=AGGREGATIONS[grpo.loss_aggregation],
        min_group=max(2, partial),
        normalize_by_std=grpo.normalize_by_std if grpo.HasField("normalize_by_std") else True,
        clip_low=grpo.clip_low if grpo.HasField("clip_low") else 0.2,
        clip_high=grpo.clip_high if grpo.HasField("clip_high") else 0.2,
        clip_dual=clip_dual or None,
        entropy_coefficient=grpo.entropy_coefficient,
        importance_cap=grpo.importance_cap if grpo.HasField("importance_cap") else 2.0,
        loss_scale_factor=grpo.loss_scale_factor if grpo.HasField("loss_scale_factor") else None,
    )
    _require(0 <= settings.clip_low <= 1, f"{path}.clipLow", "must be in [0, 1]")
    _require(0 <= settings.clip_high <= 100, f"{path}.clipHigh", "must be in [0, 100]")
    _require(0 <= settings.entropy_coefficient <= 10, f"{path}.entropyCoefficient", "must be in [0, 10]")
    _require(0 <= settings.importance_cap <= 1000, f"{path}.importanceCap", "must be in [0, 1000]")
    factor = settings.loss_scale_factor
    _require(factor is None or 0 < factor <= 1e9, f"{path}.lossScaleFactor", "must be in (0, 1e9]")
    return settings


def _optimizer(wire: jobs.Optimizer, path: str) -> OptimizerSettings:
    settings = OptimizerSettings(**_present(wire, OptimizerSettings()))
    _require(0 < settings.learning_rate <= 1, f"{path}.learningRate", "must be in (0, 1]")
    _require(0 <= settings.beta1 < 1, f"{path}.beta1", "must be in [0, 1)")
    _require(0 <= settings.beta2 < 1, f"{path}.beta2", "must be in [0, 1)")
    _require(0 <= settings.weight_decay <= 100, f"{path}.weightDecay", "must be in [0, 100]")
    _require(0 < settings.gradient_clip <= 1e9, f"{path}.gradientClip", "must be in (0, 1e9]")
    _require(0 <= settings.final_rate_share <= 1, f"{path}.finalRateShare", "must be in [0, 1]")
    return settings


def _batching(wire: jobs.Batching, path: str) -> BatchingSettings:
    settings = BatchingSettings(**_present(wire, BatchingSettings()))
    for name, value in (("miniBatches", settings.mini_batches), ("epochs", settings.epochs)):
        _require(value >= 1, f"{path}.{name}", "must be at least 1")
    _require(settings.micro_batch_tokens >= 1, f"{path}.microBatchTokens", "must be at least 1")
    return settings


def _present(wire: jobs.Optimizer | jobs.Batching, defaults: OptimizerSettings | BatchingSettings) -> dict[str, Any]:
    """Fields that the user set; the dataclass has the same names and holds the defaults of the others."""
    return {name: getattr(wire, name) for name in vars(defaults) if wire.HasField(name)}


def _require(condition: bool, path: str, reason: str) -> None:
    if not condition:
        raise SettingsError(path, reason)
