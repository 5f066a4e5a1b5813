import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from whetstone.contract.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServedSource(_message.Message):
    __slots__ = ("job", "path")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    job: JobVersion
    path: str
    def __init__(self, job: _Optional[_Union[JobVersion, _Mapping]] = ..., path: _Optional[str] = ...) -> None: ...

class JobVersion(_message.Message):
    __slots__ = ("name", "policy_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    policy_version: int
    def __init__(self, name: _Optional[str] = ..., policy_version: _Optional[int] = ...) -> None: ...

class ServedVersion(_message.Message):
    __slots__ = ("version", "source", "path", "since")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    source: ServedSource
    path: str
    since: _timestamp_pb2.Timestamp
    def __init__(self, version: _Optional[int] = ..., source: _Optional[_Union[ServedSource, _Mapping]] = ..., path: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Canary(_message.Message):
    __slots__ = ("version", "percent")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    version: ServedVersion
    percent: int
    def __init__(self, version: _Optional[_Union[ServedVersion, _Mapping]] = ..., percent: _Optional[int] = ...) -> None: ...

class ServingKey(_message.Message):
    __slots__ = ("name", "sha256", "requests_per_minute", "tokens_per_minute", "max_running")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    requests_per_minute: int
    tokens_per_minute: int
    max_running: int
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., requests_per_minute: _Optional[int] = ..., tokens_per_minute: _Optional[int] = ..., max_running: _Optional[int] = ...) -> None: ...

class Serving(_message.Message):
    __slots__ = ("name", "weight", "versions", "canary", "keys", "created_at", "beside")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: int
    versions: _containers.RepeatedCompositeFieldContainer[ServedVersion]
    canary: Canary
    keys: _containers.RepeatedCompositeFieldContainer[ServingKey]
    created_at: _timestamp_pb2.Timestamp
    beside: str
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[int] = ..., versions: _Optional[_Iterable[_Union[ServedVersion, _Mapping]]] = ..., canary: _Optional[_Union[Canary, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[ServingKey, _Mapping]]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., beside: _Optional[str] = ...) -> None: ...

class ServingView(_message.Message):
    __slots__ = ("serving", "engines", "canary_engines", "message", "url")
    SERVING_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    CANARY_ENGINES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    serving: Serving
    engines: int
    canary_engines: int
    message: str
    url: str
    def __init__(self, serving: _Optional[_Union[Serving, _Mapping]] = ..., engines: _Optional[int] = ..., canary_engines: _Optional[int] = ..., message: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class CreateServingRequest(_message.Message):
    __slots__ = ("name", "source", "weight", "keys", "beside")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: ServedSource
    weight: int
    keys: _containers.RepeatedCompositeFieldContainer[ServingKey]
    beside: str
    def __init__(self, name: _Optional[str] = ..., source: _Optional[_Union[ServedSource, _Mapping]] = ..., weight: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[ServingKey, _Mapping]]] = ..., beside: _Optional[str] = ...) -> None: ...

class CreateServingResponse(_message.Message):
    __slots__ = ("serving", "created")
    SERVING_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    serving: Serving
    created: bool
    def __init__(self, serving: _Optional[_Union[Serving, _Mapping]] = ..., created: _Optional[bool] = ...) -> None: ...

class GetServingRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetServingResponse(_message.Message):
    __slots__ = ("serving",)
    SERVING_FIELD_NUMBER: _ClassVar[int]
    serving: ServingView
    def __init__(self, serving: _Optional[_Union[ServingView, _Mapping]] = ...) -> None: ...

class ListServingsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListServingsResponse(_message.Message):
    __slots__ = ("servings",)
    SERVINGS_FIELD_NUMBER: _ClassVar[int]
    servings: _containers.RepeatedCompositeFieldContainer[ServingView]
    def __init__(self, servings: _Optional[_Iterable[_Union[ServingView, _Mapping]]] = ...) -> None: ...

class ChangeServingRequest(_message.Message):
    __slots__ = ("name", "set_canary", "set_canary_share", "end_canary", "promote", "set_weights", "rollback", "set_key", "remove_key")
    class SetCanary(_message.Message):
        __slots__ = ("source", "percent")
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        PERCENT_FIELD_NUMBER: _ClassVar[int]
        source: ServedSource
        percent: int
        def __init__(self, source: _Optional[_Union[ServedSource, _Mapping]] = ..., percent: _Optional[int] = ...) -> None: ...
    class SetCanaryShare(_message.Message):
        __slots__ = ("percent",)
        PERCENT_FIELD_NUMBER: _ClassVar[int]
        percent: int
        def __init__(self, percent: _Optional[int] = ...) -> None: ...
    class EndCanary(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Promote(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class SetWeights(_message.Message):
        __slots__ = ("source",)
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        source: ServedSource
        def __init__(self, source: _Optional[_Union[ServedSource, _Mapping]] = ...) -> None: ...
    class Rollback(_message.Message):
        __slots__ = ("to_version",)
        TO_VERSION_FIELD_NUMBER: _ClassVar[int]
        to_version: int
        def __init__(self, to_version: _Optional[int] = ...) -> None: ...
    class RemoveKey(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SET_CANARY_FIELD_NUMBER: _ClassVar[int]
    SET_CANARY_SHARE_FIELD_NUMBER: _ClassVar[int]
    END_CANARY_FIELD_NUMBER: _ClassVar[int]
    PROMOTE_FIELD_NUMBER: _ClassVar[int]
    SET_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    SET_KEY_FIELD_NUMBER: _ClassVar[int]
    REMOVE_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    set_canary: ChangeServingRequest.SetCanary
    set_canary_share: ChangeServingRequest.SetCanaryShare
    end_canary: ChangeServingRequest.EndCanary
    promote: ChangeServingRequest.Promote
    set_weights: ChangeServingRequest.SetWeights
    rollback: ChangeServingRequest.Rollback
    set_key: ServingKey
    remove_key: ChangeServingRequest.RemoveKey
    def __init__(self, name: _Optional[str] = ..., set_canary: _Optional[_Union[ChangeServingRequest.SetCanary, _Mapping]] = ..., set_canary_share: _Optional[_Union[ChangeServingRequest.SetCanaryShare, _Mapping]] = ..., end_canary: _Optional[_Union[ChangeServingRequest.EndCanary, _Mapping]] = ..., promote: _Optional[_Union[ChangeServingRequest.Promote, _Mapping]] = ..., set_weights: _Optional[_Union[ChangeServingRequest.SetWeights, _Mapping]] = ..., rollback: _Optional[_Union[ChangeServingRequest.Rollback, _Mapping]] = ..., set_key: _Optional[_Union[ServingKey, _Mapping]] = ..., remove_key: _Optional[_Union[ChangeServingRequest.RemoveKey, _Mapping]] = ...) -> None: ...

class ChangeServingResponse(_message.Message):
    __slots__ = ("serving",)
    SERVING_FIELD_NUMBER: _ClassVar[int]
    serving: Serving
    def __init__(self, serving: _Optional[_Union[Serving, _Mapping]] = ...) -> None: ...

class StreamFeedbackRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class StreamFeedbackResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteServingRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteServingResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
