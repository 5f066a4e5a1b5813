import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from whetstone.jobs.v1 import jobs_pb2 as _jobs_pb2
from whetstone.types.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RolloutTask(_message.Message):
    __slots__ = ("episode_id", "job", "group", "sample", "purpose", "task", "seed", "agent", "environment", "sampling", "limits", "model", "deadline_policy", "module", "roles")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_POLICY_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    job: str
    group: str
    sample: int
    purpose: _types_pb2.Purpose
    task: _types_pb2.Task
    seed: int
    agent: _jobs_pb2.AgentSpec
    environment: _jobs_pb2.EnvironmentSpec
    sampling: _types_pb2.Sampling
    limits: _types_pb2.RolloutLimits
    model: str
    deadline_policy: _jobs_pb2.DeadlinePolicy
    module: _types_pb2.Module
    roles: _containers.RepeatedCompositeFieldContainer[_types_pb2.Role]
    def __init__(self, episode_id: _Optional[str] = ..., job: _Optional[str] = ..., group: _Optional[str] = ..., sample: _Optional[int] = ..., purpose: _Optional[_Union[_types_pb2.Purpose, str]] = ..., task: _Optional[_Union[_types_pb2.Task, _Mapping]] = ..., seed: _Optional[int] = ..., agent: _Optional[_Union[_jobs_pb2.AgentSpec, _Mapping]] = ..., environment: _Optional[_Union[_jobs_pb2.EnvironmentSpec, _Mapping]] = ..., sampling: _Optional[_Union[_types_pb2.Sampling, _Mapping]] = ..., limits: _Optional[_Union[_types_pb2.RolloutLimits, _Mapping]] = ..., model: _Optional[str] = ..., deadline_policy: _Optional[_Union[_jobs_pb2.DeadlinePolicy, str]] = ..., module: _Optional[_Union[_types_pb2.Module, _Mapping]] = ..., roles: _Optional[_Iterable[_Union[_types_pb2.Role, _Mapping]]] = ...) -> None: ...

class BatchEntry(_message.Message):
    __slots__ = ("episode_id", "group", "sequence", "digest", "reward", "min_policy_version", "max_policy_version")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    MIN_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    group: str
    sequence: int
    digest: str
    reward: float
    min_policy_version: int
    max_policy_version: int
    def __init__(self, episode_id: _Optional[str] = ..., group: _Optional[str] = ..., sequence: _Optional[int] = ..., digest: _Optional[str] = ..., reward: _Optional[float] = ..., min_policy_version: _Optional[int] = ..., max_policy_version: _Optional[int] = ...) -> None: ...

class BaselineEntry(_message.Message):
    __slots__ = ("episode_id", "group", "sequence", "digest", "reward")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    group: str
    sequence: int
    digest: str
    reward: float
    def __init__(self, episode_id: _Optional[str] = ..., group: _Optional[str] = ..., sequence: _Optional[int] = ..., digest: _Optional[str] = ..., reward: _Optional[float] = ...) -> None: ...

class VoidedEntry(_message.Message):
    __slots__ = ("episode_id", "failure_class", "reason")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    failure_class: _types_pb2.FailureClass
    reason: str
    def __init__(self, episode_id: _Optional[str] = ..., failure_class: _Optional[_Union[_types_pb2.FailureClass, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class BatchManifest(_message.Message):
    __slots__ = ("job", "step", "epoch", "entries", "voided", "max_policy_lag", "created_at", "baselines")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    MAX_POLICY_LAG_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    BASELINES_FIELD_NUMBER: _ClassVar[int]
    job: str
    step: int
    epoch: int
    entries: _containers.RepeatedCompositeFieldContainer[BatchEntry]
    voided: _containers.RepeatedCompositeFieldContainer[VoidedEntry]
    max_policy_lag: int
    created_at: _timestamp_pb2.Timestamp
    baselines: _containers.RepeatedCompositeFieldContainer[BaselineEntry]
    def __init__(self, job: _Optional[str] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[BatchEntry, _Mapping]]] = ..., voided: _Optional[_Iterable[_Union[VoidedEntry, _Mapping]]] = ..., max_policy_lag: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., baselines: _Optional[_Iterable[_Union[BaselineEntry, _Mapping]]] = ...) -> None: ...

class PolicyRecord(_message.Message):
    __slots__ = ("job", "policy_version", "path", "manifest_digest", "epoch", "url", "tokenizer_path")
    JOB_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_PATH_FIELD_NUMBER: _ClassVar[int]
    job: str
    policy_version: int
    path: str
    manifest_digest: str
    epoch: int
    url: str
    tokenizer_path: str
    def __init__(self, job: _Optional[str] = ..., policy_version: _Optional[int] = ..., path: _Optional[str] = ..., manifest_digest: _Optional[str] = ..., epoch: _Optional[int] = ..., url: _Optional[str] = ..., tokenizer_path: _Optional[str] = ...) -> None: ...

class EpochRecord(_message.Message):
    __slots__ = ("epoch", "holder", "since")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    holder: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, epoch: _Optional[int] = ..., holder: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DispatchRecord(_message.Message):
    __slots__ = ("job", "step", "samples", "policy_version", "baselines", "groups")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    BASELINES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    job: str
    step: int
    samples: _containers.RepeatedScalarFieldContainer[int]
    policy_version: int
    baselines: _containers.RepeatedScalarFieldContainer[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job: _Optional[str] = ..., step: _Optional[int] = ..., samples: _Optional[_Iterable[int]] = ..., policy_version: _Optional[int] = ..., baselines: _Optional[_Iterable[int]] = ..., groups: _Optional[_Iterable[int]] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("job", "at", "step", "validation", "phase_changed", "engine_quarantined", "weights_synced")
    JOB_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    PHASE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    ENGINE_QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_SYNCED_FIELD_NUMBER: _ClassVar[int]
    job: str
    at: _timestamp_pb2.Timestamp
    step: _jobs_pb2.StepRecord
    validation: _jobs_pb2.ValidationResult
    phase_changed: PhaseChanged
    engine_quarantined: EngineQuarantined
    weights_synced: WeightsSynced
    def __init__(self, job: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., step: _Optional[_Union[_jobs_pb2.StepRecord, _Mapping]] = ..., validation: _Optional[_Union[_jobs_pb2.ValidationResult, _Mapping]] = ..., phase_changed: _Optional[_Union[PhaseChanged, _Mapping]] = ..., engine_quarantined: _Optional[_Union[EngineQuarantined, _Mapping]] = ..., weights_synced: _Optional[_Union[WeightsSynced, _Mapping]] = ...) -> None: ...

class PhaseChanged(_message.Message):
    __slots__ = ("to", "reason", "message")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    to: _jobs_pb2.JobPhase
    reason: str
    message: str
    def __init__(self, to: _Optional[_Union[_jobs_pb2.JobPhase, str]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., **kwargs) -> None: ...

class EngineQuarantined(_message.Message):
    __slots__ = ("engine", "reason")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    engine: str
    reason: str
    def __init__(self, engine: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class WeightsSynced(_message.Message):
    __slots__ = ("policy_version", "engines")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    engines: int
    def __init__(self, policy_version: _Optional[int] = ..., engines: _Optional[int] = ...) -> None: ...

class PoolRecord(_message.Message):
    __slots__ = ("runners", "epoch", "wanted_runners")
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WANTED_RUNNERS_FIELD_NUMBER: _ClassVar[int]
    runners: _containers.RepeatedCompositeFieldContainer[PoolRunner]
    epoch: int
    wanted_runners: int
    def __init__(self, runners: _Optional[_Iterable[_Union[PoolRunner, _Mapping]]] = ..., epoch: _Optional[int] = ..., wanted_runners: _Optional[int] = ...) -> None: ...

class PoolRunner(_message.Message):
    __slots__ = ("id", "address", "slots", "draining")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    slots: int
    draining: bool
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., slots: _Optional[int] = ..., draining: _Optional[bool] = ...) -> None: ...

class PoolLoad(_message.Message):
    __slots__ = ("orchestrator", "pool", "runners", "waiting")
    ORCHESTRATOR_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    orchestrator: str
    pool: str
    runners: _containers.RepeatedCompositeFieldContainer[RunnerLoad]
    waiting: int
    def __init__(self, orchestrator: _Optional[str] = ..., pool: _Optional[str] = ..., runners: _Optional[_Iterable[_Union[RunnerLoad, _Mapping]]] = ..., waiting: _Optional[int] = ...) -> None: ...

class RunnerLoad(_message.Message):
    __slots__ = ("id", "sessions")
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    sessions: int
    def __init__(self, id: _Optional[str] = ..., sessions: _Optional[int] = ...) -> None: ...
