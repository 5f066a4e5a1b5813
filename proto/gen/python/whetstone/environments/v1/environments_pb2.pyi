import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from whetstone.types.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DrainRequest(_message.Message):
    __slots__ = ("deadline", "undo")
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    deadline: _duration_pb2.Duration
    undo: bool
    def __init__(self, deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., undo: _Optional[bool] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("slots_used",)
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    slots_used: int
    def __init__(self, slots_used: _Optional[int] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("module",)
    MODULE_FIELD_NUMBER: _ClassVar[int]
    module: _types_pb2.Module
    def __init__(self, module: _Optional[_Union[_types_pb2.Module, _Mapping]] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("kinds", "slots", "slots_used", "draining")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[EnvironmentKind]
    slots: int
    slots_used: int
    draining: bool
    def __init__(self, kinds: _Optional[_Iterable[_Union[EnvironmentKind, _Mapping]]] = ..., slots: _Optional[int] = ..., slots_used: _Optional[int] = ..., draining: _Optional[bool] = ...) -> None: ...

class EnvironmentKind(_message.Message):
    __slots__ = ("kind", "description", "args_schema_json", "action_schema_json", "capabilities")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    ACTION_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    description: str
    args_schema_json: str
    action_schema_json: str
    capabilities: Capabilities
    def __init__(self, kind: _Optional[str] = ..., description: _Optional[str] = ..., args_schema_json: _Optional[str] = ..., action_schema_json: _Optional[str] = ..., capabilities: _Optional[_Union[Capabilities, _Mapping]] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("concurrent", "seedable", "resumable", "checkpointable")
    CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    SEEDABLE_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTABLE_FIELD_NUMBER: _ClassVar[int]
    concurrent: bool
    seedable: bool
    resumable: bool
    checkpointable: bool
    def __init__(self, concurrent: _Optional[bool] = ..., seedable: _Optional[bool] = ..., resumable: _Optional[bool] = ..., checkpointable: _Optional[bool] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("reset", "step", "close", "cancel")
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    reset: Reset
    step: Step
    close: Close
    cancel: Cancel
    def __init__(self, reset: _Optional[_Union[Reset, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ...) -> None: ...

class Reset(_message.Message):
    __slots__ = ("kind", "args", "seed", "episode_id", "module", "job")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    kind: str
    args: _struct_pb2.Struct
    seed: int
    episode_id: str
    module: _types_pb2.Module
    job: str
    def __init__(self, kind: _Optional[str] = ..., args: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., seed: _Optional[int] = ..., episode_id: _Optional[str] = ..., module: _Optional[_Union[_types_pb2.Module, _Mapping]] = ..., job: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("action", "data")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    action: str
    data: _struct_pb2.Value
    def __init__(self, action: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Cancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("observation", "error", "closed")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    observation: Observation
    error: EnvironmentError
    closed: Closed
    def __init__(self, observation: _Optional[_Union[Observation, _Mapping]] = ..., error: _Optional[_Union[EnvironmentError, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("text", "data", "reward", "terminated", "truncated", "info", "images")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    text: str
    data: _struct_pb2.Value
    reward: float
    terminated: bool
    truncated: bool
    info: _struct_pb2.Struct
    images: _containers.RepeatedCompositeFieldContainer[_types_pb2.Image]
    def __init__(self, text: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., reward: _Optional[float] = ..., terminated: _Optional[bool] = ..., truncated: _Optional[bool] = ..., info: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., images: _Optional[_Iterable[_Union[_types_pb2.Image, _Mapping]]] = ...) -> None: ...

class EnvironmentError(_message.Message):
    __slots__ = ("code", "field", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    field: str
    message: str
    def __init__(self, code: _Optional[str] = ..., field: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Closed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
