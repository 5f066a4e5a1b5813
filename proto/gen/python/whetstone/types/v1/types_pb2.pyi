import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from whetstone.contract.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Purpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PURPOSE_UNSPECIFIED: _ClassVar[Purpose]
    PURPOSE_TRAIN: _ClassVar[Purpose]
    PURPOSE_VALIDATION: _ClassVar[Purpose]
    PURPOSE_DEMONSTRATION: _ClassVar[Purpose]
    PURPOSE_BASELINE: _ClassVar[Purpose]

class TerminationReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TERMINATION_REASON_UNSPECIFIED: _ClassVar[TerminationReason]
    TERMINATION_REASON_ENV_DONE: _ClassVar[TerminationReason]
    TERMINATION_REASON_MAX_TURNS: _ClassVar[TerminationReason]
    TERMINATION_REASON_MAX_PROMPT_LENGTH: _ClassVar[TerminationReason]
    TERMINATION_REASON_MAX_RESPONSE_LENGTH: _ClassVar[TerminationReason]
    TERMINATION_REASON_DEADLINE: _ClassVar[TerminationReason]
    TERMINATION_REASON_CANCELLED: _ClassVar[TerminationReason]
    TERMINATION_REASON_ERROR: _ClassVar[TerminationReason]

class FailureClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_CLASS_UNSPECIFIED: _ClassVar[FailureClass]
    FAILURE_CLASS_NONE: _ClassVar[FailureClass]
    FAILURE_CLASS_POLICY: _ClassVar[FailureClass]
    FAILURE_CLASS_TASK: _ClassVar[FailureClass]
    FAILURE_CLASS_ENVIRONMENT: _ClassVar[FailureClass]
    FAILURE_CLASS_INFRASTRUCTURE: _ClassVar[FailureClass]
    FAILURE_CLASS_GRADER: _ClassVar[FailureClass]
    FAILURE_CLASS_DEADLINE: _ClassVar[FailureClass]

class ForkReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORK_REASON_UNSPECIFIED: _ClassVar[ForkReason]
    FORK_REASON_NO_PREFIX: _ClassVar[ForkReason]
    FORK_REASON_BRANCH: _ClassVar[ForkReason]

class SandboxBackend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_BACKEND_UNSPECIFIED: _ClassVar[SandboxBackend]
    SANDBOX_BACKEND_PROCESS: _ClassVar[SandboxBackend]
    SANDBOX_BACKEND_NONE: _ClassVar[SandboxBackend]

class AdvantageEstimator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADVANTAGE_ESTIMATOR_UNSPECIFIED: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_GRPO: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_REINFORCE: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_RLOO: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS_BASELINE: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_OPO: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_REMAX: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_GAE: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_GPG: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_GRPO_PASS_AT_K: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_NONE: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_RAFT: _ClassVar[AdvantageEstimator]
    ADVANTAGE_ESTIMATOR_CUSTOM: _ClassVar[AdvantageEstimator]

class PolicyLoss(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_LOSS_UNSPECIFIED: _ClassVar[PolicyLoss]
    POLICY_LOSS_CLIPPED: _ClassVar[PolicyLoss]
    POLICY_LOSS_GSPO: _ClassVar[PolicyLoss]
    POLICY_LOSS_CISPO: _ClassVar[PolicyLoss]
    POLICY_LOSS_SAPO: _ClassVar[PolicyLoss]
    POLICY_LOSS_REINFORCE: _ClassVar[PolicyLoss]
    POLICY_LOSS_GMPO: _ClassVar[PolicyLoss]
    POLICY_LOSS_DPPO_TV: _ClassVar[PolicyLoss]
    POLICY_LOSS_DPPO_KL: _ClassVar[PolicyLoss]
    POLICY_LOSS_DRO: _ClassVar[PolicyLoss]
    POLICY_LOSS_CUSTOM: _ClassVar[PolicyLoss]
PURPOSE_UNSPECIFIED: Purpose
PURPOSE_TRAIN: Purpose
PURPOSE_VALIDATION: Purpose
PURPOSE_DEMONSTRATION: Purpose
PURPOSE_BASELINE: Purpose
TERMINATION_REASON_UNSPECIFIED: TerminationReason
TERMINATION_REASON_ENV_DONE: TerminationReason
TERMINATION_REASON_MAX_TURNS: TerminationReason
TERMINATION_REASON_MAX_PROMPT_LENGTH: TerminationReason
TERMINATION_REASON_MAX_RESPONSE_LENGTH: TerminationReason
TERMINATION_REASON_DEADLINE: TerminationReason
TERMINATION_REASON_CANCELLED: TerminationReason
TERMINATION_REASON_ERROR: TerminationReason
FAILURE_CLASS_UNSPECIFIED: FailureClass
FAILURE_CLASS_NONE: FailureClass
FAILURE_CLASS_POLICY: FailureClass
FAILURE_CLASS_TASK: FailureClass
FAILURE_CLASS_ENVIRONMENT: FailureClass
FAILURE_CLASS_INFRASTRUCTURE: FailureClass
FAILURE_CLASS_GRADER: FailureClass
FAILURE_CLASS_DEADLINE: FailureClass
FORK_REASON_UNSPECIFIED: ForkReason
FORK_REASON_NO_PREFIX: ForkReason
FORK_REASON_BRANCH: ForkReason
SANDBOX_BACKEND_UNSPECIFIED: SandboxBackend
SANDBOX_BACKEND_PROCESS: SandboxBackend
SANDBOX_BACKEND_NONE: SandboxBackend
ADVANTAGE_ESTIMATOR_UNSPECIFIED: AdvantageEstimator
ADVANTAGE_ESTIMATOR_GRPO: AdvantageEstimator
ADVANTAGE_ESTIMATOR_REINFORCE: AdvantageEstimator
ADVANTAGE_ESTIMATOR_RLOO: AdvantageEstimator
ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS_BASELINE: AdvantageEstimator
ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS: AdvantageEstimator
ADVANTAGE_ESTIMATOR_OPO: AdvantageEstimator
ADVANTAGE_ESTIMATOR_REMAX: AdvantageEstimator
ADVANTAGE_ESTIMATOR_GAE: AdvantageEstimator
ADVANTAGE_ESTIMATOR_GPG: AdvantageEstimator
ADVANTAGE_ESTIMATOR_GRPO_PASS_AT_K: AdvantageEstimator
ADVANTAGE_ESTIMATOR_NONE: AdvantageEstimator
ADVANTAGE_ESTIMATOR_RAFT: AdvantageEstimator
ADVANTAGE_ESTIMATOR_CUSTOM: AdvantageEstimator
POLICY_LOSS_UNSPECIFIED: PolicyLoss
POLICY_LOSS_CLIPPED: PolicyLoss
POLICY_LOSS_GSPO: PolicyLoss
POLICY_LOSS_CISPO: PolicyLoss
POLICY_LOSS_SAPO: PolicyLoss
POLICY_LOSS_REINFORCE: PolicyLoss
POLICY_LOSS_GMPO: PolicyLoss
POLICY_LOSS_DPPO_TV: PolicyLoss
POLICY_LOSS_DPPO_KL: PolicyLoss
POLICY_LOSS_DRO: PolicyLoss
POLICY_LOSS_CUSTOM: PolicyLoss

class ChatMessage(_message.Message):
    __slots__ = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    name: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    tool_call_id: str
    reasoning: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., name: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., reasoning: _Optional[str] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments_json")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments_json: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("digest", "media_type", "data")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    digest: str
    media_type: str
    data: bytes
    def __init__(self, digest: _Optional[str] = ..., media_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "payload", "demonstration", "source", "chosen", "rejected", "tools", "chosen_calls", "rejected_calls")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DEMONSTRATION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_CALLS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_CALLS_FIELD_NUMBER: _ClassVar[int]
    id: str
    payload: _struct_pb2.Struct
    demonstration: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    source: str
    chosen: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    rejected: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    tools: _containers.RepeatedCompositeFieldContainer[_struct_pb2.Struct]
    chosen_calls: _containers.RepeatedCompositeFieldContainer[ModelCall]
    rejected_calls: _containers.RepeatedCompositeFieldContainer[ModelCall]
    def __init__(self, id: _Optional[str] = ..., payload: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., demonstration: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., source: _Optional[str] = ..., chosen: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., rejected: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[_struct_pb2.Struct, _Mapping]]] = ..., chosen_calls: _Optional[_Iterable[_Union[ModelCall, _Mapping]]] = ..., rejected_calls: _Optional[_Iterable[_Union[ModelCall, _Mapping]]] = ...) -> None: ...

class Module(_message.Message):
    __slots__ = ("digest", "code", "sandbox")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    digest: str
    code: bytes
    sandbox: ModuleSandbox
    def __init__(self, digest: _Optional[str] = ..., code: _Optional[bytes] = ..., sandbox: _Optional[_Union[ModuleSandbox, _Mapping]] = ...) -> None: ...

class ModuleSandbox(_message.Message):
    __slots__ = ("backend", "network")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    backend: SandboxBackend
    network: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, backend: _Optional[_Union[SandboxBackend, str]] = ..., network: _Optional[_Iterable[str]] = ...) -> None: ...

class ExternalModel(_message.Message):
    __slots__ = ("base_url", "model", "api_key_env")
    BASE_URL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    API_KEY_ENV_FIELD_NUMBER: _ClassVar[int]
    base_url: str
    model: str
    api_key_env: str
    def __init__(self, base_url: _Optional[str] = ..., model: _Optional[str] = ..., api_key_env: _Optional[str] = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("name", "advantage", "frozen", "model", "loss")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADVANTAGE_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    name: str
    advantage: AdvantageEstimator
    frozen: bool
    model: ExternalModel
    loss: PolicyLoss
    def __init__(self, name: _Optional[str] = ..., advantage: _Optional[_Union[AdvantageEstimator, str]] = ..., frozen: _Optional[bool] = ..., model: _Optional[_Union[ExternalModel, _Mapping]] = ..., loss: _Optional[_Union[PolicyLoss, str]] = ...) -> None: ...

class PhaseTimeouts(_message.Message):
    __slots__ = ("reset", "model", "step", "reward", "close")
    RESET_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    reset: _duration_pb2.Duration
    model: _duration_pb2.Duration
    step: _duration_pb2.Duration
    reward: _duration_pb2.Duration
    close: _duration_pb2.Duration
    def __init__(self, reset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., step: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reward: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., close: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "max_tokens", "min_p")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    min_p: float
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., max_tokens: _Optional[int] = ..., min_p: _Optional[float] = ...) -> None: ...

class RolloutLimits(_message.Message):
    __slots__ = ("max_steps", "max_prompt_tokens", "max_response_tokens", "enforce_prompt_limit_each_step", "episode_timeout", "retry_limit", "gamma", "overlong_filter", "accumulate_thinking", "disable_thinking", "phase_timeouts")
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESPONSE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_PROMPT_LIMIT_EACH_STEP_FIELD_NUMBER: _ClassVar[int]
    EPISODE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    OVERLONG_FILTER_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATE_THINKING_FIELD_NUMBER: _ClassVar[int]
    DISABLE_THINKING_FIELD_NUMBER: _ClassVar[int]
    PHASE_TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    max_steps: int
    max_prompt_tokens: int
    max_response_tokens: int
    enforce_prompt_limit_each_step: bool
    episode_timeout: _duration_pb2.Duration
    retry_limit: int
    gamma: float
    overlong_filter: bool
    accumulate_thinking: bool
    disable_thinking: bool
    phase_timeouts: PhaseTimeouts
    def __init__(self, max_steps: _Optional[int] = ..., max_prompt_tokens: _Optional[int] = ..., max_response_tokens: _Optional[int] = ..., enforce_prompt_limit_each_step: _Optional[bool] = ..., episode_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_limit: _Optional[int] = ..., gamma: _Optional[float] = ..., overlong_filter: _Optional[bool] = ..., accumulate_thinking: _Optional[bool] = ..., disable_thinking: _Optional[bool] = ..., phase_timeouts: _Optional[_Union[PhaseTimeouts, _Mapping]] = ...) -> None: ...

class VersionSpan(_message.Message):
    __slots__ = ("start", "end", "policy_version")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    policy_version: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., policy_version: _Optional[int] = ...) -> None: ...

class ModelCall(_message.Message):
    __slots__ = ("id", "parent_id", "prompt_ids", "completion_ids", "logprobs", "version_spans", "finish_reason", "sampling", "seed", "role", "text", "fork_reason", "started_at", "duration", "resubmissions", "cached_tokens", "demonstration_mask", "support_ids", "support_counts", "altered_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    VERSION_SPANS_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FORK_REASON_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    RESUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DEMONSTRATION_MASK_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_IDS_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_COUNTS_FIELD_NUMBER: _ClassVar[int]
    ALTERED_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent_id: str
    prompt_ids: _containers.RepeatedScalarFieldContainer[int]
    completion_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    version_spans: _containers.RepeatedCompositeFieldContainer[VersionSpan]
    finish_reason: str
    sampling: Sampling
    seed: int
    role: str
    text: str
    fork_reason: ForkReason
    started_at: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    resubmissions: int
    cached_tokens: int
    demonstration_mask: _containers.RepeatedScalarFieldContainer[int]
    support_ids: _containers.RepeatedScalarFieldContainer[int]
    support_counts: _containers.RepeatedScalarFieldContainer[int]
    altered_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., parent_id: _Optional[str] = ..., prompt_ids: _Optional[_Iterable[int]] = ..., completion_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., version_spans: _Optional[_Iterable[_Union[VersionSpan, _Mapping]]] = ..., finish_reason: _Optional[str] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., seed: _Optional[int] = ..., role: _Optional[str] = ..., text: _Optional[str] = ..., fork_reason: _Optional[_Union[ForkReason, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., resubmissions: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., demonstration_mask: _Optional[_Iterable[int]] = ..., support_ids: _Optional[_Iterable[int]] = ..., support_counts: _Optional[_Iterable[int]] = ..., altered_by: _Optional[_Iterable[str]] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("call_id", "observation", "model_response", "action", "thought", "reward", "done", "mc_return", "info", "image_digests")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    MODEL_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    THOUGHT_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MC_RETURN_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    observation: str
    model_response: str
    action: str
    thought: str
    reward: float
    done: bool
    mc_return: float
    info: _struct_pb2.Struct
    image_digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, call_id: _Optional[str] = ..., observation: _Optional[str] = ..., model_response: _Optional[str] = ..., action: _Optional[str] = ..., thought: _Optional[str] = ..., reward: _Optional[float] = ..., done: _Optional[bool] = ..., mc_return: _Optional[float] = ..., info: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., image_digests: _Optional[_Iterable[str]] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("id", "role", "steps", "reward", "final_observation")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    FINAL_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    reward: float
    final_observation: str
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., reward: _Optional[float] = ..., final_observation: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("failure_class", "phase", "message", "code")
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    failure_class: FailureClass
    phase: str
    message: str
    code: str
    def __init__(self, failure_class: _Optional[_Union[FailureClass, str]] = ..., phase: _Optional[str] = ..., message: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class EpisodeTiming(_message.Message):
    __slots__ = ("total", "model", "environment", "waiting")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    total: _duration_pb2.Duration
    model: _duration_pb2.Duration
    environment: _duration_pb2.Duration
    waiting: _duration_pb2.Duration
    def __init__(self, total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., environment: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Episode(_message.Message):
    __slots__ = ("id", "job", "group", "sample", "attempt", "purpose", "task", "trajectories", "calls", "termination_reason", "failure", "reward", "is_correct", "metrics", "timing", "seed", "started_at", "masked", "images")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    IS_CORRECT_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    id: str
    job: str
    group: str
    sample: int
    attempt: int
    purpose: Purpose
    task: Task
    trajectories: _containers.RepeatedCompositeFieldContainer[Trajectory]
    calls: _containers.RepeatedCompositeFieldContainer[ModelCall]
    termination_reason: TerminationReason
    failure: Failure
    reward: float
    is_correct: bool
    metrics: _containers.ScalarMap[str, float]
    timing: EpisodeTiming
    seed: int
    started_at: _timestamp_pb2.Timestamp
    masked: bool
    images: _containers.RepeatedCompositeFieldContainer[Image]
    def __init__(self, id: _Optional[str] = ..., job: _Optional[str] = ..., group: _Optional[str] = ..., sample: _Optional[int] = ..., attempt: _Optional[int] = ..., purpose: _Optional[_Union[Purpose, str]] = ..., task: _Optional[_Union[Task, _Mapping]] = ..., trajectories: _Optional[_Iterable[_Union[Trajectory, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[ModelCall, _Mapping]]] = ..., termination_reason: _Optional[_Union[TerminationReason, str]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., reward: _Optional[float] = ..., is_correct: _Optional[bool] = ..., metrics: _Optional[_Mapping[str, float]] = ..., timing: _Optional[_Union[EpisodeTiming, _Mapping]] = ..., seed: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., masked: _Optional[bool] = ..., images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ...) -> None: ...

class EpisodeSummary(_message.Message):
    __slots__ = ("episode_id", "attempt", "purpose", "termination_reason", "failure_class", "reward", "is_correct", "min_policy_version", "max_policy_version", "sampled_tokens", "unlabelled_tokens", "digest", "steps", "prompt_tokens", "timing", "demonstration_tokens", "failure_message", "task_id", "task_source", "failure_phase", "not_trainable")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    IS_CORRECT_FIELD_NUMBER: _ClassVar[int]
    MIN_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    UNLABELLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    DEMONSTRATION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_SOURCE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_PHASE_FIELD_NUMBER: _ClassVar[int]
    NOT_TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    attempt: int
    purpose: Purpose
    termination_reason: TerminationReason
    failure_class: FailureClass
    reward: float
    is_correct: bool
    min_policy_version: int
    max_policy_version: int
    sampled_tokens: int
    unlabelled_tokens: int
    digest: str
    steps: int
    prompt_tokens: int
    timing: EpisodeTiming
    demonstration_tokens: int
    failure_message: str
    task_id: str
    task_source: str
    failure_phase: str
    not_trainable: str
    def __init__(self, episode_id: _Optional[str] = ..., attempt: _Optional[int] = ..., purpose: _Optional[_Union[Purpose, str]] = ..., termination_reason: _Optional[_Union[TerminationReason, str]] = ..., failure_class: _Optional[_Union[FailureClass, str]] = ..., reward: _Optional[float] = ..., is_correct: _Optional[bool] = ..., min_policy_version: _Optional[int] = ..., max_policy_version: _Optional[int] = ..., sampled_tokens: _Optional[int] = ..., unlabelled_tokens: _Optional[int] = ..., digest: _Optional[str] = ..., steps: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., timing: _Optional[_Union[EpisodeTiming, _Mapping]] = ..., demonstration_tokens: _Optional[int] = ..., failure_message: _Optional[str] = ..., task_id: _Optional[str] = ..., task_source: _Optional[str] = ..., failure_phase: _Optional[str] = ..., not_trainable: _Optional[str] = ...) -> None: ...

class ReplayDifference(_message.Message):
    __slots__ = ("role", "trajectory", "step", "field", "recorded", "replayed")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    role: str
    trajectory: int
    step: int
    field: str
    recorded: str
    replayed: str
    def __init__(self, role: _Optional[str] = ..., trajectory: _Optional[int] = ..., step: _Optional[int] = ..., field: _Optional[str] = ..., recorded: _Optional[str] = ..., replayed: _Optional[str] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("code", "retry", "context", "violations", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    retry: str
    context: _struct_pb2.Struct
    violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    message: str
    def __init__(self, code: _Optional[str] = ..., retry: _Optional[str] = ..., context: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ..., message: _Optional[str] = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
