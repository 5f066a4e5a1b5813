from whetstone.events.v1 import events_pb2 as _events_pb2
from whetstone.types.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentForm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_FORM_UNSPECIFIED: _ClassVar[AgentForm]
    AGENT_FORM_AGENT: _ClassVar[AgentForm]
    AGENT_FORM_WORKFLOW: _ClassVar[AgentForm]
    AGENT_FORM_ROLLOUT: _ClassVar[AgentForm]
AGENT_FORM_UNSPECIFIED: AgentForm
AGENT_FORM_AGENT: AgentForm
AGENT_FORM_WORKFLOW: AgentForm
AGENT_FORM_ROLLOUT: AgentForm

class DescribeAgentsRequest(_message.Message):
    __slots__ = ("module",)
    MODULE_FIELD_NUMBER: _ClassVar[int]
    module: _types_pb2.Module
    def __init__(self, module: _Optional[_Union[_types_pb2.Module, _Mapping]] = ...) -> None: ...

class DescribeAgentsResponse(_message.Message):
    __slots__ = ("kinds",)
    KINDS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedCompositeFieldContainer[AgentKind]
    def __init__(self, kinds: _Optional[_Iterable[_Union[AgentKind, _Mapping]]] = ...) -> None: ...

class AgentKind(_message.Message):
    __slots__ = ("kind", "description", "args_schema_json", "form")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    kind: str
    description: str
    args_schema_json: str
    form: AgentForm
    def __init__(self, kind: _Optional[str] = ..., description: _Optional[str] = ..., args_schema_json: _Optional[str] = ..., form: _Optional[_Union[AgentForm, str]] = ...) -> None: ...

class ReplayRequest(_message.Message):
    __slots__ = ("task", "recorded")
    TASK_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    task: _events_pb2.RolloutTask
    recorded: _types_pb2.Episode
    def __init__(self, task: _Optional[_Union[_events_pb2.RolloutTask, _Mapping]] = ..., recorded: _Optional[_Union[_types_pb2.Episode, _Mapping]] = ...) -> None: ...

class ReplayResponse(_message.Message):
    __slots__ = ("replayed", "differences")
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    replayed: _types_pb2.Episode
    differences: _containers.RepeatedCompositeFieldContainer[_types_pb2.ReplayDifference]
    def __init__(self, replayed: _Optional[_Union[_types_pb2.Episode, _Mapping]] = ..., differences: _Optional[_Iterable[_Union[_types_pb2.ReplayDifference, _Mapping]]] = ...) -> None: ...
