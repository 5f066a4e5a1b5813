import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from whetstone.contract.v1 import options_pb2 as _options_pb2
from whetstone.serving.v1 import serving_pb2 as _serving_pb2
from whetstone.types.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EngineState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENGINE_STATE_UNSPECIFIED: _ClassVar[EngineState]
    ENGINE_STATE_SERVING: _ClassVar[EngineState]
    ENGINE_STATE_FENCED: _ClassVar[EngineState]
    ENGINE_STATE_QUARANTINED: _ClassVar[EngineState]

class ReplicaState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_STATE_UNSPECIFIED: _ClassVar[ReplicaState]
    REPLICA_STATE_SERVING: _ClassVar[ReplicaState]
    REPLICA_STATE_PAUSED: _ClassVar[ReplicaState]
    REPLICA_STATE_UPDATING: _ClassVar[ReplicaState]
    REPLICA_STATE_STALE: _ClassVar[ReplicaState]
    REPLICA_STATE_DOWN: _ClassVar[ReplicaState]
ENGINE_STATE_UNSPECIFIED: EngineState
ENGINE_STATE_SERVING: EngineState
ENGINE_STATE_FENCED: EngineState
ENGINE_STATE_QUARANTINED: EngineState
REPLICA_STATE_UNSPECIFIED: ReplicaState
REPLICA_STATE_SERVING: ReplicaState
REPLICA_STATE_PAUSED: ReplicaState
REPLICA_STATE_UPDATING: ReplicaState
REPLICA_STATE_STALE: ReplicaState
REPLICA_STATE_DOWN: ReplicaState

class ServedPolicy(_message.Message):
    __slots__ = ("policy", "policy_version", "label", "model_path", "tokenizer_path")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_PATH_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_PATH_FIELD_NUMBER: _ClassVar[int]
    policy: str
    policy_version: int
    label: str
    model_path: str
    tokenizer_path: str
    def __init__(self, policy: _Optional[str] = ..., policy_version: _Optional[int] = ..., label: _Optional[str] = ..., model_path: _Optional[str] = ..., tokenizer_path: _Optional[str] = ...) -> None: ...

class Engine(_message.Message):
    __slots__ = ("id", "url", "state", "policy", "in_flight", "reason", "max_model_len", "control_url", "adapters")
    ID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    CONTROL_URL_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    url: str
    state: EngineState
    policy: ServedPolicy
    in_flight: int
    reason: str
    max_model_len: int
    control_url: str
    adapters: _containers.RepeatedCompositeFieldContainer[ServedAdapter]
    def __init__(self, id: _Optional[str] = ..., url: _Optional[str] = ..., state: _Optional[_Union[EngineState, str]] = ..., policy: _Optional[_Union[ServedPolicy, _Mapping]] = ..., in_flight: _Optional[int] = ..., reason: _Optional[str] = ..., max_model_len: _Optional[int] = ..., control_url: _Optional[str] = ..., adapters: _Optional[_Iterable[_Union[ServedAdapter, _Mapping]]] = ...) -> None: ...

class ServedAdapter(_message.Message):
    __slots__ = ("policy", "in_flight")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    policy: ServedPolicy
    in_flight: int
    def __init__(self, policy: _Optional[_Union[ServedPolicy, _Mapping]] = ..., in_flight: _Optional[int] = ...) -> None: ...

class PutAdaptersRequest(_message.Message):
    __slots__ = ("id", "base_label", "adapters", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    BASE_LABEL_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    base_label: str
    adapters: _containers.RepeatedCompositeFieldContainer[ServedPolicy]
    epoch: int
    def __init__(self, id: _Optional[str] = ..., base_label: _Optional[str] = ..., adapters: _Optional[_Iterable[_Union[ServedPolicy, _Mapping]]] = ..., epoch: _Optional[int] = ...) -> None: ...

class PutAdaptersResponse(_message.Message):
    __slots__ = ("engine",)
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: Engine
    def __init__(self, engine: _Optional[_Union[Engine, _Mapping]] = ...) -> None: ...

class RegisterEngineRequest(_message.Message):
    __slots__ = ("id", "url", "control_url", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    CONTROL_URL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    url: str
    control_url: str
    epoch: int
    def __init__(self, id: _Optional[str] = ..., url: _Optional[str] = ..., control_url: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class RegisterEngineResponse(_message.Message):
    __slots__ = ("engine",)
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: Engine
    def __init__(self, engine: _Optional[_Union[Engine, _Mapping]] = ...) -> None: ...

class ListEnginesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEnginesResponse(_message.Message):
    __slots__ = ("engines", "waiting_calls")
    class WaitingCallsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    WAITING_CALLS_FIELD_NUMBER: _ClassVar[int]
    engines: _containers.RepeatedCompositeFieldContainer[Engine]
    waiting_calls: _containers.ScalarMap[str, int]
    def __init__(self, engines: _Optional[_Iterable[_Union[Engine, _Mapping]]] = ..., waiting_calls: _Optional[_Mapping[str, int]] = ...) -> None: ...

class FenceEngineRequest(_message.Message):
    __slots__ = ("id", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    epoch: int
    def __init__(self, id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class FenceEngineResponse(_message.Message):
    __slots__ = ("engine",)
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: Engine
    def __init__(self, engine: _Optional[_Union[Engine, _Mapping]] = ...) -> None: ...

class DrainEngineRequest(_message.Message):
    __slots__ = ("id", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    epoch: int
    def __init__(self, id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class DrainEngineResponse(_message.Message):
    __slots__ = ("engine",)
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: Engine
    def __init__(self, engine: _Optional[_Union[Engine, _Mapping]] = ...) -> None: ...

class UnfenceEngineRequest(_message.Message):
    __slots__ = ("id", "policy", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    policy: ServedPolicy
    epoch: int
    def __init__(self, id: _Optional[str] = ..., policy: _Optional[_Union[ServedPolicy, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class UnfenceEngineResponse(_message.Message):
    __slots__ = ("engine",)
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: Engine
    def __init__(self, engine: _Optional[_Union[Engine, _Mapping]] = ...) -> None: ...

class RemoveEngineRequest(_message.Message):
    __slots__ = ("id", "drain", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    drain: _duration_pb2.Duration
    epoch: int
    def __init__(self, id: _Optional[str] = ..., drain: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class RemoveEngineResponse(_message.Message):
    __slots__ = ("revoked",)
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    revoked: int
    def __init__(self, revoked: _Optional[int] = ...) -> None: ...

class ForgetPolicyRequest(_message.Message):
    __slots__ = ("policy", "epoch")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    policy: str
    epoch: int
    def __init__(self, policy: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class ForgetPolicyResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    def __init__(self, sessions: _Optional[int] = ...) -> None: ...

class ServedName(_message.Message):
    __slots__ = ("name", "policy", "canary_policy", "canary_percent", "keys")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CANARY_POLICY_FIELD_NUMBER: _ClassVar[int]
    CANARY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    name: str
    policy: str
    canary_policy: str
    canary_percent: int
    keys: _containers.RepeatedCompositeFieldContainer[_serving_pb2.ServingKey]
    def __init__(self, name: _Optional[str] = ..., policy: _Optional[str] = ..., canary_policy: _Optional[str] = ..., canary_percent: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[_serving_pb2.ServingKey, _Mapping]]] = ...) -> None: ...

class PutServingsRequest(_message.Message):
    __slots__ = ("servings", "epoch")
    SERVINGS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    servings: _containers.RepeatedCompositeFieldContainer[ServedName]
    epoch: int
    def __init__(self, servings: _Optional[_Iterable[_Union[ServedName, _Mapping]]] = ..., epoch: _Optional[int] = ...) -> None: ...

class PutServingsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("id", "serving", "task")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    id: str
    serving: str
    task: str
    def __init__(self, id: _Optional[str] = ..., serving: _Optional[str] = ..., task: _Optional[str] = ...) -> None: ...

class TakeFeedbackRequest(_message.Message):
    __slots__ = ("stored", "epoch")
    STORED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    stored: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    def __init__(self, stored: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ...) -> None: ...

class TakeFeedbackResponse(_message.Message):
    __slots__ = ("feedback",)
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    feedback: _containers.RepeatedCompositeFieldContainer[Feedback]
    def __init__(self, feedback: _Optional[_Iterable[_Union[Feedback, _Mapping]]] = ...) -> None: ...

class CallTree(_message.Message):
    __slots__ = ("session", "calls")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    session: str
    calls: _containers.RepeatedCompositeFieldContainer[_types_pb2.ModelCall]
    def __init__(self, session: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[_types_pb2.ModelCall, _Mapping]]] = ...) -> None: ...

class FleetReplica(_message.Message):
    __slots__ = ("name", "url", "state", "policy", "policy_version", "in_flight", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    state: ReplicaState
    policy: str
    policy_version: int
    in_flight: int
    reason: str
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., state: _Optional[_Union[ReplicaState, str]] = ..., policy: _Optional[str] = ..., policy_version: _Optional[int] = ..., in_flight: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class FleetCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Fleet(_message.Message):
    __slots__ = ("name", "wanted", "replicas", "conditions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    wanted: int
    replicas: _containers.RepeatedCompositeFieldContainer[FleetReplica]
    conditions: _containers.RepeatedCompositeFieldContainer[FleetCondition]
    def __init__(self, name: _Optional[str] = ..., wanted: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[FleetReplica, _Mapping]]] = ..., conditions: _Optional[_Iterable[_Union[FleetCondition, _Mapping]]] = ...) -> None: ...

class ListFleetsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFleetsResponse(_message.Message):
    __slots__ = ("fleets", "policies")
    FLEETS_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    fleets: _containers.RepeatedCompositeFieldContainer[Fleet]
    policies: _containers.RepeatedCompositeFieldContainer[WantedPolicy]
    def __init__(self, fleets: _Optional[_Iterable[_Union[Fleet, _Mapping]]] = ..., policies: _Optional[_Iterable[_Union[WantedPolicy, _Mapping]]] = ...) -> None: ...

class WantedPolicy(_message.Message):
    __slots__ = ("policy", "policy_version")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    policy: str
    policy_version: int
    def __init__(self, policy: _Optional[str] = ..., policy_version: _Optional[int] = ...) -> None: ...

class ScaleFleetRequest(_message.Message):
    __slots__ = ("name", "replicas")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    name: str
    replicas: int
    def __init__(self, name: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...

class ScaleFleetResponse(_message.Message):
    __slots__ = ("fleet",)
    FLEET_FIELD_NUMBER: _ClassVar[int]
    fleet: Fleet
    def __init__(self, fleet: _Optional[_Union[Fleet, _Mapping]] = ...) -> None: ...
