import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SandboxFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_FATE_UNSPECIFIED: _ClassVar[SandboxFate]
    SANDBOX_FATE_THERE: _ClassVar[SandboxFate]
    SANDBOX_FATE_GONE: _ClassVar[SandboxFate]
    SANDBOX_FATE_MEMORY: _ClassVar[SandboxFate]
    SANDBOX_FATE_DISK: _ClassVar[SandboxFate]
    SANDBOX_FATE_EXPIRED: _ClassVar[SandboxFate]
SANDBOX_FATE_UNSPECIFIED: SandboxFate
SANDBOX_FATE_THERE: SandboxFate
SANDBOX_FATE_GONE: SandboxFate
SANDBOX_FATE_MEMORY: SandboxFate
SANDBOX_FATE_DISK: SandboxFate
SANDBOX_FATE_EXPIRED: SandboxFate

class GetSandboxPoolRequest(_message.Message):
    __slots__ = ("name", "image")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    image: str
    def __init__(self, name: _Optional[str] = ..., image: _Optional[str] = ...) -> None: ...

class GetSandboxPoolResponse(_message.Message):
    __slots__ = ("memory_mib", "cpus", "disk_mib", "name", "image", "image_folders")
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    DISK_MIB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FOLDERS_FIELD_NUMBER: _ClassVar[int]
    memory_mib: int
    cpus: float
    disk_mib: int
    name: str
    image: str
    image_folders: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_mib: _Optional[int] = ..., cpus: _Optional[float] = ..., disk_mib: _Optional[int] = ..., name: _Optional[str] = ..., image: _Optional[str] = ..., image_folders: _Optional[_Iterable[str]] = ...) -> None: ...

class ClaimSandboxRequest(_message.Message):
    __slots__ = ("claim_id", "pool", "ttl", "certificate_fingerprint", "owner", "owner_instance", "with_another", "beside_claim_id")
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    WITH_ANOTHER_FIELD_NUMBER: _ClassVar[int]
    BESIDE_CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    pool: str
    ttl: _duration_pb2.Duration
    certificate_fingerprint: str
    owner: str
    owner_instance: str
    with_another: bool
    beside_claim_id: str
    def __init__(self, claim_id: _Optional[str] = ..., pool: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., certificate_fingerprint: _Optional[str] = ..., owner: _Optional[str] = ..., owner_instance: _Optional[str] = ..., with_another: _Optional[bool] = ..., beside_claim_id: _Optional[str] = ...) -> None: ...

class ClaimSandboxResponse(_message.Message):
    __slots__ = ("address", "certificate")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    address: str
    certificate: str
    def __init__(self, address: _Optional[str] = ..., certificate: _Optional[str] = ...) -> None: ...

class ReleaseSandboxRequest(_message.Message):
    __slots__ = ("claim_id",)
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    def __init__(self, claim_id: _Optional[str] = ...) -> None: ...

class ReleaseSandboxResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSandboxRequest(_message.Message):
    __slots__ = ("claim_id",)
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    def __init__(self, claim_id: _Optional[str] = ...) -> None: ...

class GetSandboxResponse(_message.Message):
    __slots__ = ("fate", "message")
    FATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    fate: SandboxFate
    message: str
    def __init__(self, fate: _Optional[_Union[SandboxFate, str]] = ..., message: _Optional[str] = ...) -> None: ...
