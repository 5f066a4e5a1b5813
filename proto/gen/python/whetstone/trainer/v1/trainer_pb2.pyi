import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from whetstone.jobs.v1 import jobs_pb2 as _jobs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConfigureRequest(_message.Message):
    __slots__ = ("spec", "run_path", "epoch", "job_uid")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RUN_PATH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_UID_FIELD_NUMBER: _ClassVar[int]
    spec: _jobs_pb2.JobSpec
    run_path: str
    epoch: int
    job_uid: str
    def __init__(self, spec: _Optional[_Union[_jobs_pb2.JobSpec, _Mapping]] = ..., run_path: _Optional[str] = ..., epoch: _Optional[int] = ..., job_uid: _Optional[str] = ...) -> None: ...

class ConfigureResponse(_message.Message):
    __slots__ = ("step", "weights", "device", "parameters", "progress", "notices")
    STEP_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    step: int
    weights: Weights
    device: str
    parameters: int
    progress: TrainProgress
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, step: _Optional[int] = ..., weights: _Optional[_Union[Weights, _Mapping]] = ..., device: _Optional[str] = ..., parameters: _Optional[int] = ..., progress: _Optional[_Union[TrainProgress, _Mapping]] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Weights(_message.Message):
    __slots__ = ("policy_version", "path", "manifest_digest", "url")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    path: str
    manifest_digest: str
    url: str
    def __init__(self, policy_version: _Optional[int] = ..., path: _Optional[str] = ..., manifest_digest: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class TrainStepRequest(_message.Message):
    __slots__ = ("epoch", "manifest", "dropped")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    manifest: bytes
    dropped: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.DroppedEpisode]
    def __init__(self, epoch: _Optional[int] = ..., manifest: _Optional[bytes] = ..., dropped: _Optional[_Iterable[_Union[_jobs_pb2.DroppedEpisode, _Mapping]]] = ...) -> None: ...

class TrainStepResponse(_message.Message):
    __slots__ = ("progress", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: TrainProgress
    result: TrainResult
    def __init__(self, progress: _Optional[_Union[TrainProgress, _Mapping]] = ..., result: _Optional[_Union[TrainResult, _Mapping]] = ...) -> None: ...

class TrainProgress(_message.Message):
    __slots__ = ("phase", "share", "notices")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    phase: str
    share: float
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, phase: _Optional[str] = ..., share: _Optional[float] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class TrainResult(_message.Message):
    __slots__ = ("step", "weights", "metrics", "tokens_trained", "rows", "batch_digest", "duration", "replayed", "dropped", "notices")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_TRAINED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCH_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    step: int
    weights: Weights
    metrics: _containers.ScalarMap[str, float]
    tokens_trained: int
    rows: int
    batch_digest: str
    duration: _duration_pb2.Duration
    replayed: bool
    dropped: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.DroppedEpisode]
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, step: _Optional[int] = ..., weights: _Optional[_Union[Weights, _Mapping]] = ..., metrics: _Optional[_Mapping[str, float]] = ..., tokens_trained: _Optional[int] = ..., rows: _Optional[int] = ..., batch_digest: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., replayed: _Optional[bool] = ..., dropped: _Optional[_Iterable[_Union[_jobs_pb2.DroppedEpisode, _Mapping]]] = ..., notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class EvaluateRequest(_message.Message):
    __slots__ = ("epoch", "manifest")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    manifest: bytes
    def __init__(self, epoch: _Optional[int] = ..., manifest: _Optional[bytes] = ...) -> None: ...

class EvaluateResponse(_message.Message):
    __slots__ = ("progress", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: TrainProgress
    result: EvaluateResult
    def __init__(self, progress: _Optional[_Union[TrainProgress, _Mapping]] = ..., result: _Optional[_Union[EvaluateResult, _Mapping]] = ...) -> None: ...

class EvaluateResult(_message.Message):
    __slots__ = ("metrics", "dropped")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    METRICS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    metrics: _containers.ScalarMap[str, float]
    dropped: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.DroppedEpisode]
    def __init__(self, metrics: _Optional[_Mapping[str, float]] = ..., dropped: _Optional[_Iterable[_Union[_jobs_pb2.DroppedEpisode, _Mapping]]] = ...) -> None: ...

class EvaluateLogProbsRequest(_message.Message):
    __slots__ = ("rows", "temperature")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[TokenRow]
    temperature: float
    def __init__(self, rows: _Optional[_Iterable[_Union[TokenRow, _Mapping]]] = ..., temperature: _Optional[float] = ...) -> None: ...

class TokenRow(_message.Message):
    __slots__ = ("token_ids",)
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class EvaluateLogProbsResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[LogProbRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[LogProbRow, _Mapping]]] = ...) -> None: ...

class LogProbRow(_message.Message):
    __slots__ = ("logprobs",)
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class RepairWeightsRequest(_message.Message):
    __slots__ = ("epoch", "policy_version")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    policy_version: int
    def __init__(self, epoch: _Optional[int] = ..., policy_version: _Optional[int] = ...) -> None: ...

class RepairWeightsResponse(_message.Message):
    __slots__ = ("weights",)
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    weights: Weights
    def __init__(self, weights: _Optional[_Union[Weights, _Mapping]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("job_uid", "epoch", "step", "busy", "device", "configuring", "object_store")
    JOB_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURING_FIELD_NUMBER: _ClassVar[int]
    OBJECT_STORE_FIELD_NUMBER: _ClassVar[int]
    job_uid: str
    epoch: int
    step: int
    busy: bool
    device: str
    configuring: TrainProgress
    object_store: str
    def __init__(self, job_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ..., busy: _Optional[bool] = ..., device: _Optional[str] = ..., configuring: _Optional[_Union[TrainProgress, _Mapping]] = ..., object_store: _Optional[str] = ...) -> None: ...

class GetStoredRunRequest(_message.Message):
    __slots__ = ("job_uid", "url", "with_state")
    JOB_UID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    WITH_STATE_FIELD_NUMBER: _ClassVar[int]
    job_uid: str
    url: str
    with_state: bool
    def __init__(self, job_uid: _Optional[str] = ..., url: _Optional[str] = ..., with_state: _Optional[bool] = ...) -> None: ...

class GetStoredRunResponse(_message.Message):
    __slots__ = ("checkpoints", "versions", "objects", "bytes", "state")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.Checkpoint]
    versions: int
    objects: int
    bytes: int
    state: bytes
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[_jobs_pb2.Checkpoint, _Mapping]]] = ..., versions: _Optional[int] = ..., objects: _Optional[int] = ..., bytes: _Optional[int] = ..., state: _Optional[bytes] = ...) -> None: ...

class DeleteStoredRunRequest(_message.Message):
    __slots__ = ("job_uid", "url")
    JOB_UID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    job_uid: str
    url: str
    def __init__(self, job_uid: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class DeleteStoredRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
