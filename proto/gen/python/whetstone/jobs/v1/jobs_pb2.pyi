import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from whetstone.contract.v1 import options_pb2 as _options_pb2
from whetstone.types.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClientSampling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLIENT_SAMPLING_UNSPECIFIED: _ClassVar[ClientSampling]
    CLIENT_SAMPLING_CONTEXT: _ClassVar[ClientSampling]
    CLIENT_SAMPLING_OVERRIDE: _ClassVar[ClientSampling]
    CLIENT_SAMPLING_REFUSE: _ClassVar[ClientSampling]

class LossAggregation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOSS_AGGREGATION_UNSPECIFIED: _ClassVar[LossAggregation]
    LOSS_AGGREGATION_TOKEN_MEAN: _ClassVar[LossAggregation]
    LOSS_AGGREGATION_TOKEN_SUM: _ClassVar[LossAggregation]
    LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM: _ClassVar[LossAggregation]
    LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM_NORM: _ClassVar[LossAggregation]
    LOSS_AGGREGATION_SEQ_MEAN_TOKEN_MEAN: _ClassVar[LossAggregation]

class DpoVariant(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DPO_VARIANT_UNSPECIFIED: _ClassVar[DpoVariant]
    DPO_VARIANT_DPO: _ClassVar[DpoVariant]
    DPO_VARIANT_IPO: _ClassVar[DpoVariant]

class GroupingLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUPING_LEVEL_UNSPECIFIED: _ClassVar[GroupingLevel]
    GROUPING_LEVEL_TRAJECTORY: _ClassVar[GroupingLevel]
    GROUPING_LEVEL_STEP: _ClassVar[GroupingLevel]

class LossDenominator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOSS_DENOMINATOR_UNSPECIFIED: _ClassVar[LossDenominator]
    LOSS_DENOMINATOR_BATCH: _ClassVar[LossDenominator]
    LOSS_DENOMINATOR_SIGNAL: _ClassVar[LossDenominator]

class KlEstimator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KL_ESTIMATOR_UNSPECIFIED: _ClassVar[KlEstimator]
    KL_ESTIMATOR_K1: _ClassVar[KlEstimator]
    KL_ESTIMATOR_ABS: _ClassVar[KlEstimator]
    KL_ESTIMATOR_K2: _ClassVar[KlEstimator]
    KL_ESTIMATOR_K3: _ClassVar[KlEstimator]
    KL_ESTIMATOR_K3_PLUS: _ClassVar[KlEstimator]

class KlPlace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KL_PLACE_UNSPECIFIED: _ClassVar[KlPlace]
    KL_PLACE_LOSS: _ClassVar[KlPlace]
    KL_PLACE_REWARD: _ClassVar[KlPlace]
    KL_PLACE_ADVANTAGE: _ClassVar[KlPlace]

class CorrectionLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CORRECTION_LEVEL_UNSPECIFIED: _ClassVar[CorrectionLevel]
    CORRECTION_LEVEL_TOKEN: _ClassVar[CorrectionLevel]
    CORRECTION_LEVEL_SEQUENCE: _ClassVar[CorrectionLevel]
    CORRECTION_LEVEL_UNWEIGHTED: _ClassVar[CorrectionLevel]
    CORRECTION_LEVEL_OFF: _ClassVar[CorrectionLevel]

class RejectionStatistic(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECTION_STATISTIC_UNSPECIFIED: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_TOKEN_K1: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_TOKEN_K2: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_TOKEN_K3: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_SUM_K1: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_SUM_K2: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_SUM_K3: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_MEAN_K1: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_MEAN_K2: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_MEAN_K3: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_MAX_K2: _ClassVar[RejectionStatistic]
    REJECTION_STATISTIC_SEQ_MAX_K3: _ClassVar[RejectionStatistic]

class DeadlinePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEADLINE_POLICY_UNSPECIFIED: _ClassVar[DeadlinePolicy]
    DEADLINE_POLICY_VOID: _ClassVar[DeadlinePolicy]
    DEADLINE_POLICY_SCORE: _ClassVar[DeadlinePolicy]
    DEADLINE_POLICY_MASK: _ClassVar[DeadlinePolicy]

class MismatchPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISMATCH_POLICY_UNSPECIFIED: _ClassVar[MismatchPolicy]
    MISMATCH_POLICY_WARN: _ClassVar[MismatchPolicy]
    MISMATCH_POLICY_STOP: _ClassVar[MismatchPolicy]

class WeightsDtype(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WEIGHTS_DTYPE_UNSPECIFIED: _ClassVar[WeightsDtype]
    WEIGHTS_DTYPE_FLOAT32: _ClassVar[WeightsDtype]
    WEIGHTS_DTYPE_BFLOAT16: _ClassVar[WeightsDtype]

class JobPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_PHASE_UNSPECIFIED: _ClassVar[JobPhase]
    JOB_PHASE_QUEUED: _ClassVar[JobPhase]
    JOB_PHASE_RUNNING: _ClassVar[JobPhase]
    JOB_PHASE_SUSPENDED: _ClassVar[JobPhase]
    JOB_PHASE_SUCCEEDED: _ClassVar[JobPhase]
    JOB_PHASE_FAILED: _ClassVar[JobPhase]
    JOB_PHASE_CANCELLED: _ClassVar[JobPhase]

class Requester(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUESTER_UNSPECIFIED: _ClassVar[Requester]
    REQUESTER_USER: _ClassVar[Requester]
    REQUESTER_CONTROLLER: _ClassVar[Requester]
    REQUESTER_DELETION: _ClassVar[Requester]

class JobWish(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_WISH_UNSPECIFIED: _ClassVar[JobWish]
    JOB_WISH_RUN: _ClassVar[JobWish]
    JOB_WISH_SUSPEND: _ClassVar[JobWish]
    JOB_WISH_CANCEL: _ClassVar[JobWish]
CLIENT_SAMPLING_UNSPECIFIED: ClientSampling
CLIENT_SAMPLING_CONTEXT: ClientSampling
CLIENT_SAMPLING_OVERRIDE: ClientSampling
CLIENT_SAMPLING_REFUSE: ClientSampling
LOSS_AGGREGATION_UNSPECIFIED: LossAggregation
LOSS_AGGREGATION_TOKEN_MEAN: LossAggregation
LOSS_AGGREGATION_TOKEN_SUM: LossAggregation
LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM: LossAggregation
LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM_NORM: LossAggregation
LOSS_AGGREGATION_SEQ_MEAN_TOKEN_MEAN: LossAggregation
DPO_VARIANT_UNSPECIFIED: DpoVariant
DPO_VARIANT_DPO: DpoVariant
DPO_VARIANT_IPO: DpoVariant
GROUPING_LEVEL_UNSPECIFIED: GroupingLevel
GROUPING_LEVEL_TRAJECTORY: GroupingLevel
GROUPING_LEVEL_STEP: GroupingLevel
LOSS_DENOMINATOR_UNSPECIFIED: LossDenominator
LOSS_DENOMINATOR_BATCH: LossDenominator
LOSS_DENOMINATOR_SIGNAL: LossDenominator
KL_ESTIMATOR_UNSPECIFIED: KlEstimator
KL_ESTIMATOR_K1: KlEstimator
KL_ESTIMATOR_ABS: KlEstimator
KL_ESTIMATOR_K2: KlEstimator
KL_ESTIMATOR_K3: KlEstimator
KL_ESTIMATOR_K3_PLUS: KlEstimator
KL_PLACE_UNSPECIFIED: KlPlace
KL_PLACE_LOSS: KlPlace
KL_PLACE_REWARD: KlPlace
KL_PLACE_ADVANTAGE: KlPlace
CORRECTION_LEVEL_UNSPECIFIED: CorrectionLevel
CORRECTION_LEVEL_TOKEN: CorrectionLevel
CORRECTION_LEVEL_SEQUENCE: CorrectionLevel
CORRECTION_LEVEL_UNWEIGHTED: CorrectionLevel
CORRECTION_LEVEL_OFF: CorrectionLevel
REJECTION_STATISTIC_UNSPECIFIED: RejectionStatistic
REJECTION_STATISTIC_TOKEN_K1: RejectionStatistic
REJECTION_STATISTIC_TOKEN_K2: RejectionStatistic
REJECTION_STATISTIC_TOKEN_K3: RejectionStatistic
REJECTION_STATISTIC_SEQ_SUM_K1: RejectionStatistic
REJECTION_STATISTIC_SEQ_SUM_K2: RejectionStatistic
REJECTION_STATISTIC_SEQ_SUM_K3: RejectionStatistic
REJECTION_STATISTIC_SEQ_MEAN_K1: RejectionStatistic
REJECTION_STATISTIC_SEQ_MEAN_K2: RejectionStatistic
REJECTION_STATISTIC_SEQ_MEAN_K3: RejectionStatistic
REJECTION_STATISTIC_SEQ_MAX_K2: RejectionStatistic
REJECTION_STATISTIC_SEQ_MAX_K3: RejectionStatistic
DEADLINE_POLICY_UNSPECIFIED: DeadlinePolicy
DEADLINE_POLICY_VOID: DeadlinePolicy
DEADLINE_POLICY_SCORE: DeadlinePolicy
DEADLINE_POLICY_MASK: DeadlinePolicy
MISMATCH_POLICY_UNSPECIFIED: MismatchPolicy
MISMATCH_POLICY_WARN: MismatchPolicy
MISMATCH_POLICY_STOP: MismatchPolicy
WEIGHTS_DTYPE_UNSPECIFIED: WeightsDtype
WEIGHTS_DTYPE_FLOAT32: WeightsDtype
WEIGHTS_DTYPE_BFLOAT16: WeightsDtype
JOB_PHASE_UNSPECIFIED: JobPhase
JOB_PHASE_QUEUED: JobPhase
JOB_PHASE_RUNNING: JobPhase
JOB_PHASE_SUSPENDED: JobPhase
JOB_PHASE_SUCCEEDED: JobPhase
JOB_PHASE_FAILED: JobPhase
JOB_PHASE_CANCELLED: JobPhase
REQUESTER_UNSPECIFIED: Requester
REQUESTER_USER: Requester
REQUESTER_CONTROLLER: Requester
REQUESTER_DELETION: Requester
JOB_WISH_UNSPECIFIED: JobWish
JOB_WISH_RUN: JobWish
JOB_WISH_SUSPEND: JobWish
JOB_WISH_CANCEL: JobWish

class Lora(_message.Message):
    __slots__ = ("rank", "alpha", "target_modules")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    TARGET_MODULES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    alpha: float
    target_modules: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[int] = ..., alpha: _Optional[float] = ..., target_modules: _Optional[_Iterable[str]] = ...) -> None: ...

class ModelSource(_message.Message):
    __slots__ = ("path", "lora")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LORA_FIELD_NUMBER: _ClassVar[int]
    path: str
    lora: Lora
    def __init__(self, path: _Optional[str] = ..., lora: _Optional[_Union[Lora, _Mapping]] = ...) -> None: ...

class AgentSpec(_message.Message):
    __slots__ = ("kind", "args", "client_sampling")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    kind: str
    args: _struct_pb2.Struct
    client_sampling: ClientSampling
    def __init__(self, kind: _Optional[str] = ..., args: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., client_sampling: _Optional[_Union[ClientSampling, str]] = ...) -> None: ...

class EnvironmentSpec(_message.Message):
    __slots__ = ("kind", "args", "pool")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    kind: str
    args: _struct_pb2.Struct
    pool: str
    def __init__(self, kind: _Optional[str] = ..., args: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., pool: _Optional[str] = ...) -> None: ...

class SeedRange(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("jsonl", "seeds", "shuffle_seed", "take", "repeat")
    JSONL_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_SEED_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    jsonl: str
    seeds: SeedRange
    shuffle_seed: int
    take: int
    repeat: int
    def __init__(self, jsonl: _Optional[str] = ..., seeds: _Optional[_Union[SeedRange, _Mapping]] = ..., shuffle_seed: _Optional[int] = ..., take: _Optional[int] = ..., repeat: _Optional[int] = ...) -> None: ...

class ValidationVariant(_message.Message):
    __slots__ = ("name", "sampling", "attempts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    sampling: _types_pb2.Sampling
    attempts: int
    def __init__(self, name: _Optional[str] = ..., sampling: _Optional[_Union[_types_pb2.Sampling, _Mapping]] = ..., attempts: _Optional[int] = ...) -> None: ...

class Validation(_message.Message):
    __slots__ = ("dataset", "every_steps", "at_start", "at_end", "variants", "concurrency")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    AT_START_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    dataset: Dataset
    every_steps: int
    at_start: bool
    at_end: bool
    variants: _containers.RepeatedCompositeFieldContainer[ValidationVariant]
    concurrency: int
    def __init__(self, dataset: _Optional[_Union[Dataset, _Mapping]] = ..., every_steps: _Optional[int] = ..., at_start: _Optional[bool] = ..., at_end: _Optional[bool] = ..., variants: _Optional[_Iterable[_Union[ValidationVariant, _Mapping]]] = ..., concurrency: _Optional[int] = ...) -> None: ...

class Optimizer(_message.Message):
    __slots__ = ("learning_rate", "beta1", "beta2", "weight_decay", "gradient_clip", "warmup_steps", "final_rate_share")
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_CLIP_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    FINAL_RATE_SHARE_FIELD_NUMBER: _ClassVar[int]
    learning_rate: float
    beta1: float
    beta2: float
    weight_decay: float
    gradient_clip: float
    warmup_steps: int
    final_rate_share: float
    def __init__(self, learning_rate: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ..., weight_decay: _Optional[float] = ..., gradient_clip: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., final_rate_share: _Optional[float] = ...) -> None: ...

class Batching(_message.Message):
    __slots__ = ("mini_batches", "epochs", "micro_batch_tokens", "whole_groups", "recompute_activations")
    MINI_BATCHES_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    MICRO_BATCH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_ACTIVATIONS_FIELD_NUMBER: _ClassVar[int]
    mini_batches: int
    epochs: int
    micro_batch_tokens: int
    whole_groups: bool
    recompute_activations: bool
    def __init__(self, mini_batches: _Optional[int] = ..., epochs: _Optional[int] = ..., micro_batch_tokens: _Optional[int] = ..., whole_groups: _Optional[bool] = ..., recompute_activations: _Optional[bool] = ...) -> None: ...

class Sft(_message.Message):
    __slots__ = ("optimizer", "batching")
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    BATCHING_FIELD_NUMBER: _ClassVar[int]
    optimizer: Optimizer
    batching: Batching
    def __init__(self, optimizer: _Optional[_Union[Optimizer, _Mapping]] = ..., batching: _Optional[_Union[Batching, _Mapping]] = ...) -> None: ...

class Dpo(_message.Message):
    __slots__ = ("variant", "beta", "label_smoothing", "reference", "optimizer", "batching")
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    LABEL_SMOOTHING_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    BATCHING_FIELD_NUMBER: _ClassVar[int]
    variant: DpoVariant
    beta: float
    label_smoothing: float
    reference: str
    optimizer: Optimizer
    batching: Batching
    def __init__(self, variant: _Optional[_Union[DpoVariant, str]] = ..., beta: _Optional[float] = ..., label_smoothing: _Optional[float] = ..., reference: _Optional[str] = ..., optimizer: _Optional[_Union[Optimizer, _Mapping]] = ..., batching: _Optional[_Union[Batching, _Mapping]] = ...) -> None: ...

class DynamicSampling(_message.Message):
    __slots__ = ("max_replacements",)
    MAX_REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    max_replacements: int
    def __init__(self, max_replacements: _Optional[int] = ...) -> None: ...

class Overlong(_message.Message):
    __slots__ = ("max_tokens", "buffer_tokens", "penalty")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PENALTY_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    buffer_tokens: int
    penalty: float
    def __init__(self, max_tokens: _Optional[int] = ..., buffer_tokens: _Optional[int] = ..., penalty: _Optional[float] = ...) -> None: ...

class KlPenalty(_message.Message):
    __slots__ = ("coefficient", "estimator", "applied_to", "target", "horizon", "model", "discount", "clip", "engine")
    COEFFICIENT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATOR_FIELD_NUMBER: _ClassVar[int]
    APPLIED_TO_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DISCOUNT_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    coefficient: float
    estimator: KlEstimator
    applied_to: KlPlace
    target: float
    horizon: float
    model: str
    discount: float
    clip: float
    engine: str
    def __init__(self, coefficient: _Optional[float] = ..., estimator: _Optional[_Union[KlEstimator, str]] = ..., applied_to: _Optional[_Union[KlPlace, str]] = ..., target: _Optional[float] = ..., horizon: _Optional[float] = ..., model: _Optional[str] = ..., discount: _Optional[float] = ..., clip: _Optional[float] = ..., engine: _Optional[str] = ...) -> None: ...

class Critic(_message.Message):
    __slots__ = ("model", "optimizer", "value_clip", "warmup_steps")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    VALUE_CLIP_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    model: str
    optimizer: Optimizer
    value_clip: float
    warmup_steps: int
    def __init__(self, model: _Optional[str] = ..., optimizer: _Optional[_Union[Optimizer, _Mapping]] = ..., value_clip: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("statistic", "low", "high")
    STATISTIC_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    statistic: RejectionStatistic
    low: float
    high: float
    def __init__(self, statistic: _Optional[_Union[RejectionStatistic, str]] = ..., low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class Correction(_message.Message):
    __slots__ = ("level", "cap", "floor", "normalize", "same_version", "reject")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    SAME_VERSION_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    level: CorrectionLevel
    cap: float
    floor: float
    normalize: bool
    same_version: bool
    reject: _containers.RepeatedCompositeFieldContainer[Rejection]
    def __init__(self, level: _Optional[_Union[CorrectionLevel, str]] = ..., cap: _Optional[float] = ..., floor: _Optional[float] = ..., normalize: _Optional[bool] = ..., same_version: _Optional[bool] = ..., reject: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ...) -> None: ...

class PolicyGradient(_message.Message):
    __slots__ = ("group_size", "normalize_by_std", "clip_low", "clip_high", "clip_dual", "entropy_coefficient", "loss_aggregation", "optimizer", "batching", "loss_scale_factor", "advantage", "loss", "loss_denominator", "gamma", "kl", "gae_lambda", "critic", "correction", "dro_beta", "dynamic_sampling", "overlong", "grouping_level", "reward_threshold", "module", "module_digest")
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_BY_STD_FIELD_NUMBER: _ClassVar[int]
    CLIP_LOW_FIELD_NUMBER: _ClassVar[int]
    CLIP_HIGH_FIELD_NUMBER: _ClassVar[int]
    CLIP_DUAL_FIELD_NUMBER: _ClassVar[int]
    ENTROPY_COEFFICIENT_FIELD_NUMBER: _ClassVar[int]
    LOSS_AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    BATCHING_FIELD_NUMBER: _ClassVar[int]
    LOSS_SCALE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    LOSS_DENOMINATOR_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    KL_FIELD_NUMBER: _ClassVar[int]
    GAE_LAMBDA_FIELD_NUMBER: _ClassVar[int]
    CRITIC_FIELD_NUMBER: _ClassVar[int]
    CORRECTION_FIELD_NUMBER: _ClassVar[int]
    DRO_BETA_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    OVERLONG_FIELD_NUMBER: _ClassVar[int]
    GROUPING_LEVEL_FIELD_NUMBER: _ClassVar[int]
    REWARD_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    MODULE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    group_size: int
    normalize_by_std: bool
    clip_low: float
    clip_high: float
    clip_dual: float
    entropy_coefficient: float
    loss_aggregation: LossAggregation
    optimizer: Optimizer
    batching: Batching
    loss_scale_factor: float
    advantage: _types_pb2.AdvantageEstimator
    loss: _types_pb2.PolicyLoss
    loss_denominator: LossDenominator
    gamma: float
    kl: KlPenalty
    gae_lambda: float
    critic: Critic
    correction: Correction
    dro_beta: float
    dynamic_sampling: DynamicSampling
    overlong: Overlong
    grouping_level: GroupingLevel
    reward_threshold: float
    module: str
    module_digest: str
    def __init__(self, group_size: _Optional[int] = ..., normalize_by_std: _Optional[bool] = ..., clip_low: _Optional[float] = ..., clip_high: _Optional[float] = ..., clip_dual: _Optional[float] = ..., entropy_coefficient: _Optional[float] = ..., loss_aggregation: _Optional[_Union[LossAggregation, str]] = ..., optimizer: _Optional[_Union[Optimizer, _Mapping]] = ..., batching: _Optional[_Union[Batching, _Mapping]] = ..., loss_scale_factor: _Optional[float] = ..., advantage: _Optional[_Union[_types_pb2.AdvantageEstimator, str]] = ..., loss: _Optional[_Union[_types_pb2.PolicyLoss, str]] = ..., loss_denominator: _Optional[_Union[LossDenominator, str]] = ..., gamma: _Optional[float] = ..., kl: _Optional[_Union[KlPenalty, _Mapping]] = ..., gae_lambda: _Optional[float] = ..., critic: _Optional[_Union[Critic, _Mapping]] = ..., correction: _Optional[_Union[Correction, _Mapping]] = ..., dro_beta: _Optional[float] = ..., dynamic_sampling: _Optional[_Union[DynamicSampling, _Mapping]] = ..., overlong: _Optional[_Union[Overlong, _Mapping]] = ..., grouping_level: _Optional[_Union[GroupingLevel, str]] = ..., reward_threshold: _Optional[float] = ..., module: _Optional[str] = ..., module_digest: _Optional[str] = ...) -> None: ...

class Algorithm(_message.Message):
    __slots__ = ("sft", "policy_gradient", "dpo")
    SFT_FIELD_NUMBER: _ClassVar[int]
    POLICY_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    DPO_FIELD_NUMBER: _ClassVar[int]
    sft: Sft
    policy_gradient: PolicyGradient
    dpo: Dpo
    def __init__(self, sft: _Optional[_Union[Sft, _Mapping]] = ..., policy_gradient: _Optional[_Union[PolicyGradient, _Mapping]] = ..., dpo: _Optional[_Union[Dpo, _Mapping]] = ...) -> None: ...

class GroupPolicy(_message.Message):
    __slots__ = ("complete", "partial", "drop")
    class Complete(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Partial(_message.Message):
        __slots__ = ("min_size",)
        MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
        min_size: int
        def __init__(self, min_size: _Optional[int] = ...) -> None: ...
    class Drop(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    complete: GroupPolicy.Complete
    partial: GroupPolicy.Partial
    drop: GroupPolicy.Drop
    def __init__(self, complete: _Optional[_Union[GroupPolicy.Complete, _Mapping]] = ..., partial: _Optional[_Union[GroupPolicy.Partial, _Mapping]] = ..., drop: _Optional[_Union[GroupPolicy.Drop, _Mapping]] = ...) -> None: ...

class Loop(_message.Message):
    __slots__ = ("steps", "batch_groups", "max_policy_lag", "checkpoint_every", "checkpoints_kept", "group_policy", "deadline_policy", "on_mismatch", "mismatch_bound", "mismatch_share")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BATCH_GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_POLICY_LAG_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_EVERY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_KEPT_FIELD_NUMBER: _ClassVar[int]
    GROUP_POLICY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_POLICY_FIELD_NUMBER: _ClassVar[int]
    ON_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_BOUND_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_SHARE_FIELD_NUMBER: _ClassVar[int]
    steps: int
    batch_groups: int
    max_policy_lag: int
    checkpoint_every: int
    checkpoints_kept: int
    group_policy: GroupPolicy
    deadline_policy: DeadlinePolicy
    on_mismatch: MismatchPolicy
    mismatch_bound: float
    mismatch_share: float
    def __init__(self, steps: _Optional[int] = ..., batch_groups: _Optional[int] = ..., max_policy_lag: _Optional[int] = ..., checkpoint_every: _Optional[int] = ..., checkpoints_kept: _Optional[int] = ..., group_policy: _Optional[_Union[GroupPolicy, _Mapping]] = ..., deadline_policy: _Optional[_Union[DeadlinePolicy, str]] = ..., on_mismatch: _Optional[_Union[MismatchPolicy, str]] = ..., mismatch_bound: _Optional[float] = ..., mismatch_share: _Optional[float] = ...) -> None: ...

class WeightTransport(_message.Message):
    __slots__ = ("folder", "stream", "object_store", "broadcast")
    class Folder(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Stream(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ObjectStore(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Broadcast(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OBJECT_STORE_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    folder: WeightTransport.Folder
    stream: WeightTransport.Stream
    object_store: WeightTransport.ObjectStore
    broadcast: WeightTransport.Broadcast
    def __init__(self, folder: _Optional[_Union[WeightTransport.Folder, _Mapping]] = ..., stream: _Optional[_Union[WeightTransport.Stream, _Mapping]] = ..., object_store: _Optional[_Union[WeightTransport.ObjectStore, _Mapping]] = ..., broadcast: _Optional[_Union[WeightTransport.Broadcast, _Mapping]] = ...) -> None: ...

class PublishedWeights(_message.Message):
    __slots__ = ("dtype", "shard_mib", "transport")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_MIB_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    dtype: WeightsDtype
    shard_mib: int
    transport: WeightTransport
    def __init__(self, dtype: _Optional[_Union[WeightsDtype, str]] = ..., shard_mib: _Optional[int] = ..., transport: _Optional[_Union[WeightTransport, _Mapping]] = ...) -> None: ...

class Sharding(_message.Message):
    __slots__ = ("sequence_parallel", "offload")
    SEQUENCE_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    OFFLOAD_FIELD_NUMBER: _ClassVar[int]
    sequence_parallel: int
    offload: bool
    def __init__(self, sequence_parallel: _Optional[int] = ..., offload: _Optional[bool] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "model", "agent", "environment", "train", "validation", "algorithm", "loop", "sampling", "limits", "seed", "timeout", "module", "roles", "weight", "weights", "sharding")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: ModelSource
    agent: AgentSpec
    environment: EnvironmentSpec
    train: Dataset
    validation: Validation
    algorithm: Algorithm
    loop: Loop
    sampling: _types_pb2.Sampling
    limits: _types_pb2.RolloutLimits
    seed: int
    timeout: _duration_pb2.Duration
    module: _types_pb2.Module
    roles: _containers.RepeatedCompositeFieldContainer[_types_pb2.Role]
    weight: int
    weights: PublishedWeights
    sharding: Sharding
    def __init__(self, name: _Optional[str] = ..., model: _Optional[_Union[ModelSource, _Mapping]] = ..., agent: _Optional[_Union[AgentSpec, _Mapping]] = ..., environment: _Optional[_Union[EnvironmentSpec, _Mapping]] = ..., train: _Optional[_Union[Dataset, _Mapping]] = ..., validation: _Optional[_Union[Validation, _Mapping]] = ..., algorithm: _Optional[_Union[Algorithm, _Mapping]] = ..., loop: _Optional[_Union[Loop, _Mapping]] = ..., sampling: _Optional[_Union[_types_pb2.Sampling, _Mapping]] = ..., limits: _Optional[_Union[_types_pb2.RolloutLimits, _Mapping]] = ..., seed: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., module: _Optional[_Union[_types_pb2.Module, _Mapping]] = ..., roles: _Optional[_Iterable[_Union[_types_pb2.Role, _Mapping]]] = ..., weight: _Optional[int] = ..., weights: _Optional[_Union[PublishedWeights, _Mapping]] = ..., sharding: _Optional[_Union[Sharding, _Mapping]] = ...) -> None: ...

class DesiredState(_message.Message):
    __slots__ = ("run", "suspend", "end")
    class Run(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Suspend(_message.Message):
        __slots__ = ("by", "reason", "message")
        BY_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        by: Requester
        reason: str
        message: str
        def __init__(self, by: _Optional[_Union[Requester, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    class End(_message.Message):
        __slots__ = ("by", "outcome", "reason", "message")
        BY_FIELD_NUMBER: _ClassVar[int]
        OUTCOME_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        by: Requester
        outcome: JobPhase
        reason: str
        message: str
        def __init__(self, by: _Optional[_Union[Requester, str]] = ..., outcome: _Optional[_Union[JobPhase, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    run: DesiredState.Run
    suspend: DesiredState.Suspend
    end: DesiredState.End
    def __init__(self, run: _Optional[_Union[DesiredState.Run, _Mapping]] = ..., suspend: _Optional[_Union[DesiredState.Suspend, _Mapping]] = ..., end: _Optional[_Union[DesiredState.End, _Mapping]] = ...) -> None: ...

class EpisodeCounts(_message.Message):
    __slots__ = ("dispatched", "trained", "voided", "in_flight", "baseline")
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    TRAINED_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    dispatched: int
    trained: int
    voided: int
    in_flight: int
    baseline: int
    def __init__(self, dispatched: _Optional[int] = ..., trained: _Optional[int] = ..., voided: _Optional[int] = ..., in_flight: _Optional[int] = ..., baseline: _Optional[int] = ...) -> None: ...

class ValidationResult(_message.Message):
    __slots__ = ("step", "variant", "tasks", "episodes", "voided", "success", "mean_reward", "pass_at_k", "finished_at", "duration", "policy_version", "commonest_failure", "metrics")
    class PassAtKEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MEAN_REWARD_FIELD_NUMBER: _ClassVar[int]
    PASS_AT_K_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMONEST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    step: int
    variant: str
    tasks: int
    episodes: int
    voided: int
    success: float
    mean_reward: float
    pass_at_k: _containers.ScalarMap[int, float]
    finished_at: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    policy_version: int
    commonest_failure: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, step: _Optional[int] = ..., variant: _Optional[str] = ..., tasks: _Optional[int] = ..., episodes: _Optional[int] = ..., voided: _Optional[int] = ..., success: _Optional[float] = ..., mean_reward: _Optional[float] = ..., pass_at_k: _Optional[_Mapping[int, float]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., policy_version: _Optional[int] = ..., commonest_failure: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class StepTiming(_message.Message):
    __slots__ = ("total", "sampling", "training", "syncing", "waiting", "validating")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    SYNCING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    VALIDATING_FIELD_NUMBER: _ClassVar[int]
    total: _duration_pb2.Duration
    sampling: _duration_pb2.Duration
    training: _duration_pb2.Duration
    syncing: _duration_pb2.Duration
    waiting: _duration_pb2.Duration
    validating: _duration_pb2.Duration
    def __init__(self, total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., sampling: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., training: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., syncing: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., validating: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DroppedEpisode(_message.Message):
    __slots__ = ("episode_id", "reason", "message")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    reason: str
    message: str
    def __init__(self, episode_id: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class StepRecord(_message.Message):
    __slots__ = ("step", "policy_version", "metrics", "timing", "episodes", "voided", "tokens_sampled", "tokens_trained", "finished_at", "batch_digest", "dropped", "commonest_failure", "baselines", "weights_digest")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_SAMPLED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_TRAINED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    BATCH_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    COMMONEST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    BASELINES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    step: int
    policy_version: int
    metrics: _containers.ScalarMap[str, float]
    timing: StepTiming
    episodes: int
    voided: int
    tokens_sampled: int
    tokens_trained: int
    finished_at: _timestamp_pb2.Timestamp
    batch_digest: str
    dropped: _containers.RepeatedCompositeFieldContainer[DroppedEpisode]
    commonest_failure: str
    baselines: int
    weights_digest: str
    def __init__(self, step: _Optional[int] = ..., policy_version: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., timing: _Optional[_Union[StepTiming, _Mapping]] = ..., episodes: _Optional[int] = ..., voided: _Optional[int] = ..., tokens_sampled: _Optional[int] = ..., tokens_trained: _Optional[int] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., batch_digest: _Optional[str] = ..., dropped: _Optional[_Iterable[_Union[DroppedEpisode, _Mapping]]] = ..., commonest_failure: _Optional[str] = ..., baselines: _Optional[int] = ..., weights_digest: _Optional[str] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("phase", "reason", "message", "step", "policy_version", "epoch", "episodes", "started_at", "finished_at", "model_path", "validations", "last_step", "tokens_sampled", "restarts")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    MODEL_PATH_FIELD_NUMBER: _ClassVar[int]
    VALIDATIONS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    TOKENS_SAMPLED_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    phase: JobPhase
    reason: str
    message: str
    step: int
    policy_version: int
    epoch: int
    episodes: EpisodeCounts
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    model_path: str
    validations: _containers.RepeatedCompositeFieldContainer[ValidationResult]
    last_step: StepRecord
    tokens_sampled: int
    restarts: int
    def __init__(self, phase: _Optional[_Union[JobPhase, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., step: _Optional[int] = ..., policy_version: _Optional[int] = ..., epoch: _Optional[int] = ..., episodes: _Optional[_Union[EpisodeCounts, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model_path: _Optional[str] = ..., validations: _Optional[_Iterable[_Union[ValidationResult, _Mapping]]] = ..., last_step: _Optional[_Union[StepRecord, _Mapping]] = ..., tokens_sampled: _Optional[int] = ..., restarts: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("spec", "uid", "created_at", "wish", "status", "generation", "hold_reason", "end_reason", "end_message", "max_restarts", "trainer_address", "desired_state")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HOLD_REASON_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    END_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DESIRED_STATE_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    uid: str
    created_at: _timestamp_pb2.Timestamp
    wish: JobWish
    status: JobStatus
    generation: int
    hold_reason: str
    end_reason: str
    end_message: str
    max_restarts: int
    trainer_address: str
    desired_state: DesiredState
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ..., uid: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., wish: _Optional[_Union[JobWish, str]] = ..., status: _Optional[_Union[JobStatus, _Mapping]] = ..., generation: _Optional[int] = ..., hold_reason: _Optional[str] = ..., end_reason: _Optional[str] = ..., end_message: _Optional[str] = ..., max_restarts: _Optional[int] = ..., trainer_address: _Optional[str] = ..., desired_state: _Optional[_Union[DesiredState, _Mapping]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("step", "policy_version", "path", "model_path", "created_at")
    STEP_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODEL_PATH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    step: int
    policy_version: int
    path: str
    model_path: str
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, step: _Optional[int] = ..., policy_version: _Optional[int] = ..., path: _Optional[str] = ..., model_path: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("spec", "dry_run", "module_code")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    MODULE_CODE_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    dry_run: bool
    module_code: bytes
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ..., dry_run: _Optional[bool] = ..., module_code: _Optional[bytes] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job", "created")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    job: Job
    created: bool
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., created: _Optional[bool] = ...) -> None: ...

class PushModuleRequest(_message.Message):
    __slots__ = ("module_code",)
    MODULE_CODE_FIELD_NUMBER: _ClassVar[int]
    module_code: bytes
    def __init__(self, module_code: _Optional[bytes] = ...) -> None: ...

class PushModuleResponse(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WatchJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class UpdateJobRequest(_message.Message):
    __slots__ = ("name", "steps", "timeout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    steps: int
    timeout: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., steps: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class UpdateJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class SuspendJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class SuspendJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("name", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ("episodes", "stream_bytes", "ledger_entries", "weights", "checkpoints", "run_bytes", "stored_objects", "stored_bytes")
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    STREAM_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    RUN_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    episodes: int
    stream_bytes: int
    ledger_entries: int
    weights: int
    checkpoints: int
    run_bytes: int
    stored_objects: int
    stored_bytes: int
    def __init__(self, episodes: _Optional[int] = ..., stream_bytes: _Optional[int] = ..., ledger_entries: _Optional[int] = ..., weights: _Optional[int] = ..., checkpoints: _Optional[int] = ..., run_bytes: _Optional[int] = ..., stored_objects: _Optional[int] = ..., stored_bytes: _Optional[int] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints", "notice")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    notice: str
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., notice: _Optional[str] = ...) -> None: ...

class StreamMetricsRequest(_message.Message):
    __slots__ = ("name", "from_step", "follow")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    name: str
    from_step: int
    follow: bool
    def __init__(self, name: _Optional[str] = ..., from_step: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class StreamMetricsResponse(_message.Message):
    __slots__ = ("step", "validation")
    STEP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    step: StepRecord
    validation: ValidationResult
    def __init__(self, step: _Optional[_Union[StepRecord, _Mapping]] = ..., validation: _Optional[_Union[ValidationResult, _Mapping]] = ...) -> None: ...

class StreamEpisodesRequest(_message.Message):
    __slots__ = ("name", "purpose", "group", "last", "follow")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    name: str
    purpose: _types_pb2.Purpose
    group: str
    last: int
    follow: bool
    def __init__(self, name: _Optional[str] = ..., purpose: _Optional[_Union[_types_pb2.Purpose, str]] = ..., group: _Optional[str] = ..., last: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class StreamEpisodesResponse(_message.Message):
    __slots__ = ("summary", "sequence")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    summary: _types_pb2.EpisodeSummary
    sequence: int
    def __init__(self, summary: _Optional[_Union[_types_pb2.EpisodeSummary, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class GetEpisodeRequest(_message.Message):
    __slots__ = ("episode_id",)
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    def __init__(self, episode_id: _Optional[str] = ...) -> None: ...

class GetEpisodeResponse(_message.Message):
    __slots__ = ("episode", "trained_in_step")
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    TRAINED_IN_STEP_FIELD_NUMBER: _ClassVar[int]
    episode: _types_pb2.Episode
    trained_in_step: int
    def __init__(self, episode: _Optional[_Union[_types_pb2.Episode, _Mapping]] = ..., trained_in_step: _Optional[int] = ...) -> None: ...

class ReplayEpisodeRequest(_message.Message):
    __slots__ = ("episode_id",)
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    def __init__(self, episode_id: _Optional[str] = ...) -> None: ...

class ReplayEpisodeResponse(_message.Message):
    __slots__ = ("recorded", "replayed", "differences")
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    recorded: _types_pb2.Episode
    replayed: _types_pb2.Episode
    differences: _containers.RepeatedCompositeFieldContainer[_types_pb2.ReplayDifference]
    def __init__(self, recorded: _Optional[_Union[_types_pb2.Episode, _Mapping]] = ..., replayed: _Optional[_Union[_types_pb2.Episode, _Mapping]] = ..., differences: _Optional[_Iterable[_Union[_types_pb2.ReplayDifference, _Mapping]]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("name", "step")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: int
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("record", "episodes")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    record: StepRecord
    episodes: _containers.RepeatedCompositeFieldContainer[_types_pb2.EpisodeSummary]
    def __init__(self, record: _Optional[_Union[StepRecord, _Mapping]] = ..., episodes: _Optional[_Iterable[_Union[_types_pb2.EpisodeSummary, _Mapping]]] = ...) -> None: ...

class AuditJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AuditJobResponse(_message.Message):
    __slots__ = ("dispatched", "trained", "voided", "in_flight", "lost", "duplicated", "stale", "unlabelled", "checked_episodes", "violations", "baseline")
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    TRAINED_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DUPLICATED_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    UNLABELLED_FIELD_NUMBER: _ClassVar[int]
    CHECKED_EPISODES_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    dispatched: int
    trained: int
    voided: int
    in_flight: int
    lost: int
    duplicated: int
    stale: int
    unlabelled: int
    checked_episodes: int
    violations: _containers.RepeatedCompositeFieldContainer[AuditViolation]
    baseline: int
    def __init__(self, dispatched: _Optional[int] = ..., trained: _Optional[int] = ..., voided: _Optional[int] = ..., in_flight: _Optional[int] = ..., lost: _Optional[int] = ..., duplicated: _Optional[int] = ..., stale: _Optional[int] = ..., unlabelled: _Optional[int] = ..., checked_episodes: _Optional[int] = ..., violations: _Optional[_Iterable[_Union[AuditViolation, _Mapping]]] = ..., baseline: _Optional[int] = ...) -> None: ...

class AuditViolation(_message.Message):
    __slots__ = ("kind", "subject", "reason")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    subject: str
    reason: str
    def __init__(self, kind: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
