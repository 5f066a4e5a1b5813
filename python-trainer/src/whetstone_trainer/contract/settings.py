# SPDX-License-Identifier: Apache-2.0
"""The part of a JobSpec that the trainer acts on, checked once and with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages import ESTIMATOR_OF, ESTIMATORS
from whetstone_trainer.algorithms.custom import CUSTOM, CustomAlgorithm
from whetstone_trainer.algorithms.estimator import Estimator
from whetstone_trainer.algorithms.guard import FIELD
from whetstone_trainer.algorithms.kl import has_reference
from whetstone_trainer.algorithms.losses import LOSS_OF, TOKEN_LOSSES
from whetstone_trainer.algorithms.token_loss import TokenLoss
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.rules import check, with_defaults

# LOSS_AGGREGATION_TOKEN_MEAN → "token-mean", as in a job file.
AGGREGATIONS = {
    value: name.removeprefix("LOSS_AGGREGATION_").lower().replace("_", "-")
    for name, value in jobs.LossAggregation.items()
    if value != jobs.LOSS_AGGREGATION_UNSPECIFIED
}

S = TypeVar("S", "AlgorithmSettings", "RoleSettings")
# Members of a group that DPO trains: what was chosen and what was rejected.
PAIR = 2


@dataclass(frozen=True)
class AlgorithmSettings:
    """Names look up `algorithms.advantages` and `algorithms.losses`; `options` are their arguments."""

    name: str
    advantage: str
    token_loss: str
    aggregation: str = "token-mean"
    # Groups with fewer members get advantage 0; 1 for algorithms without group statistics.
    min_group: int = 1
    # With every default; empty for SFT and DPO, which have none of them.
    options: jobs.PolicyGradient = field(default_factory=jobs.PolicyGradient)
    # With every default. Present: pairs are trained, by `algorithms.preference`, and no token loss is looked up.
    preference: jobs.Dpo | None = None
    # The job's own code, once it is loaded.
    custom: CustomAlgorithm | None = None

    def estimator(self, name: str) -> Estimator:
        own = self.custom.estimator if self.custom is not None and name == CUSTOM else None
        return own or ESTIMATORS[name]

    def loss(self, name: str) -> TokenLoss:
        own = self.custom.token_loss if self.custom is not None and name == CUSTOM else None
        return own or TOKEN_LOSSES[name]


@dataclass(frozen=True)
class RoleSettings:
    """One role; roles that the job does not list are trained with the job's own estimator and loss."""

    # Looks up `algorithms.advantages`.
    advantage: str
    # Groups with fewer members get advantage 0.
    min_group: int
    # False: its tokens are context.
    trained: bool = True
    # Looks up `algorithms.losses`; empty: the job's own.
    token_loss: str = ""


@dataclass(frozen=True)
class PublishedForm:
    """How versions are published."""

    # "float32" or "bfloat16".
    dtype: str = "float32"
    # Most bytes of tensors in a file.
    shard_bytes: int = 1 << 30
    # How engines come by them: "folder" (they read the run folder), "stream" (from the trainer), "broadcast" (from
    # the trainer, several engines at once) or "object_store".
    transport: str = "folder"


@dataclass(frozen=True)
class Sharding:
    """How several ranks hold the models and compute their passes."""

    # Ranks that compute a pass together.
    sequence_parallel: int = 1
    # Weights, gradients and optimizer state are in the host's memory.
    offload: bool = False


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
    # With every default.
    optimizer: jobs.Optimizer
    batching: jobs.Batching
    # By name; only those that the job lists.
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    # A group that lost members is trained if so many are left.
    fewest_members: int = 1
    # Nats; a token further off fails the step, or only shows.
    mismatch_bound: float = 1.0
    # Of the rows of each version.
    mismatch_share: float = 1.0
    stop_on_mismatch: bool = True
    # Folder of what divergences are measured from; empty: there is no such policy.
    reference_path: str = ""
    # In its place: URL of the engine that is asked; empty: none.
    reference_engine: str = ""
    # Folder of what the critic starts from; empty: there is none.
    critic_path: str = ""
    # With every default. Absent: all weights of the policy are trained.
    lora: jobs.Lora | None = None
    published: PublishedForm = PublishedForm()
    sharding: Sharding = Sharding()

    def trains_policy(self, step: int) -> bool:
        """False while only the critic is trained."""
        return not self.critic_path or step >= self.algorithm.options.critic.warmup_steps


def parse_settings(given: jobs.JobSpec) -> TrainSettings:
    """Raises SettingsError naming the first field that cannot be honoured."""
    check(given)
    spec = with_defaults(given)
    kind = spec.algorithm.WhichOneof("kind")
    if kind is None:
        raise SettingsError("algorithm", "is required: sft, dpo or policyGradient")
    chosen: jobs.Sft | jobs.Dpo | jobs.PolicyGradient = getattr(spec.algorithm, kind)
    loop = spec.loop
    algorithm = _algorithm(spec, kind)
    return TrainSettings(
        job=spec.name,
        model_path=spec.model.path,
        seed=spec.seed,
        steps=loop.steps,
        max_policy_lag=loop.max_policy_lag,
        checkpoint_every=loop.checkpoint_every,
        checkpoints_kept=loop.checkpoints_kept,
        mask_deadline=loop.deadline_policy == jobs.DEADLINE_POLICY_MASK,
        fewest_members=_fewest_members(spec),
        mismatch_bound=loop.mismatch_bound,
        mismatch_share=loop.mismatch_share,
        stop_on_mismatch=loop.on_mismatch == jobs.MISMATCH_POLICY_STOP,
        algorithm=algorithm,
        optimizer=chosen.optimizer,
        batching=chosen.batching,
        roles=_roles(given, algorithm),
        reference_path=_reference_path(spec),
        reference_engine=_reference_engine(spec),
        critic_path=_critic_path(spec),
        lora=spec.model.lora if spec.model.HasField("lora") else None,
        published=_published(spec.weights),
        sharding=Sharding(spec.sharding.sequence_parallel, spec.sharding.offload),
    )


def with_custom(settings: TrainSettings, custom: CustomAlgorithm) -> TrainSettings:
    """The settings with the job's own code: only now it is known what that needs. Raises SettingsError."""
    algorithm = replace(settings.algorithm, custom=custom)
    options, losses = algorithm.options, {algorithm.token_loss, *(role.token_loss for role in settings.roles.values())}
    if CUSTOM in losses and custom.token_loss is None:
        raise SettingsError(FIELD, "defines no TOKEN_LOSS, which loss custom needs")
    advantages = {algorithm.advantage, *(role.advantage for role in settings.roles.values())}
    if CUSTOM not in advantages:
        return replace(settings, algorithm=algorithm)
    estimator = custom.estimator
    if estimator is None:
        raise SettingsError(FIELD, "defines no ESTIMATOR, which advantage custom needs")
    if estimator.compares and options.group_size < 2:
        raise SettingsError("algorithm.policyGradient.groupSize", "must be at least 2: ESTIMATOR compares members")
    if not estimator.compares and options.HasField("dynamic_sampling"):
        raise SettingsError("algorithm.policyGradient.dynamicSampling", "is not used: ESTIMATOR compares no members")
    if (estimator.returns is not None) > options.HasField("critic"):
        raise SettingsError("algorithm.policyGradient.critic", "is required by ESTIMATOR, which has returns")
    if options.HasField("critic") and all(algorithm.estimator(name).returns is None for name in advantages):
        raise SettingsError("algorithm.policyGradient.critic", "is not used: ESTIMATOR has no returns")
    roles = {name: _resolved(role, estimator) for name, role in settings.roles.items()}
    return replace(settings, algorithm=_resolved(algorithm, estimator), roles=roles)


def _resolved(of: S, estimator: Estimator) -> S:
    """What was read before the job's own estimator was there had the `min_group` that the job asks for, or 1."""
    if of.advantage != CUSTOM:
        return of
    return replace(of, min_group=_min_group(estimator, of.min_group))


def _min_group(estimator: Estimator, asked: int) -> int:
    """`partial` asks for more members than an estimator that compares them needs; one that compares none needs none."""
    return max(estimator.fewest_members, asked) if estimator.compares else estimator.fewest_members


def _algorithm(spec: jobs.JobSpec, kind: str) -> AlgorithmSettings:
    match kind:
        case "sft":
            return AlgorithmSettings("sft", "constant", "nll")
        case "dpo":
            return AlgorithmSettings("dpo", "preference", "", min_group=PAIR, preference=spec.algorithm.dpo)
        case _:
            return _policy_gradient(spec)


def _published(weights: jobs.PublishedWeights) -> PublishedForm:
    dtype = "bfloat16" if weights.dtype == jobs.WEIGHTS_DTYPE_BFLOAT16 else "float32"
    return PublishedForm(dtype, weights.shard_mib << 20, weights.transport.WhichOneof("kind") or "folder")


def _reference_path(spec: jobs.JobSpec) -> str:
    if spec.algorithm.HasField("dpo"):
        return spec.algorithm.dpo.reference or spec.model.path
    options = spec.algorithm.policy_gradient
    is_loaded = has_reference(options) and not options.kl.engine
    return options.kl.model or spec.model.path if is_loaded else ""


def _reference_engine(spec: jobs.JobSpec) -> str:
    options = spec.algorithm.policy_gradient
    return options.kl.engine.rstrip("/") if has_reference(options) else ""


def _critic_path(spec: jobs.JobSpec) -> str:
    options = spec.algorithm.policy_gradient
    return options.critic.model or spec.model.path if options.HasField("critic") else ""


def _fewest_members(spec: jobs.JobSpec) -> int:
    """As `isEnough` in the controller's loop/batch/batch.ts: `drop` and `complete` list whole groups only."""
    if spec.algorithm.HasField("dpo"):
        return PAIR
    policy = spec.loop.group_policy
    match policy.WhichOneof("kind"):
        case "partial":
            return policy.partial.min_size
        case None:
            return min(2, max(1, spec.algorithm.policy_gradient.group_size))
        case _:
            return max(1, spec.algorithm.policy_gradient.group_size)


def _roles(spec: jobs.JobSpec, algorithm: AlgorithmSettings) -> dict[str, RoleSettings]:
    for index, role in enumerate(spec.roles):
        if algorithm.name not in ("sft", "dpo"):
            continue
        if role.advantage != types.ADVANTAGE_ESTIMATOR_UNSPECIFIED:
            raise SettingsError(f"roles[{index}].advantage", f"{algorithm.name.upper()} has no advantages")
        if role.loss != types.POLICY_LOSS_UNSPECIFIED:
            raise SettingsError(f"roles[{index}].loss", f"{algorithm.name.upper()} has no policy loss")
    return {role.name: _role(role, algorithm) for role in spec.roles}


def _role(role: types.Role, algorithm: AlgorithmSettings) -> RoleSettings:
    trained = not (role.frozen or role.HasField("model"))
    token_loss = _loss_name(role.loss) if role.loss != types.POLICY_LOSS_UNSPECIFIED else ""
    if role.advantage == types.ADVANTAGE_ESTIMATOR_UNSPECIFIED:
        return RoleSettings(algorithm.advantage, algorithm.min_group, trained, token_loss)
    if role.advantage == types.ADVANTAGE_ESTIMATOR_CUSTOM:
        return RoleSettings(CUSTOM, algorithm.min_group, trained, token_loss)
    estimator = ESTIMATOR_OF[role.advantage]
    return RoleSettings(estimator.name, _min_group(estimator, algorithm.min_group), trained, token_loss)


def _policy_gradient(spec: jobs.JobSpec) -> AlgorithmSettings:
    options, policy = spec.algorithm.policy_gradient, spec.loop.group_policy
    is_custom = options.advantage == types.ADVANTAGE_ESTIMATOR_CUSTOM
    estimator = None if is_custom else ESTIMATOR_OF[options.advantage]
    partial = policy.partial.min_size if policy.WhichOneof("kind") == "partial" else 0
    return AlgorithmSettings(
        name="policy_gradient",
        advantage=estimator.name if estimator else CUSTOM,
        token_loss=_loss_name(options.loss),
        aggregation=AGGREGATIONS[options.loss_aggregation],
        min_group=_min_group(estimator, partial) if estimator else max(1, partial),
        options=options,
    )


def _loss_name(loss: types.PolicyLoss) -> str:
    return CUSTOM if loss == types.POLICY_LOSS_CUSTOM else LOSS_OF[loss].name
