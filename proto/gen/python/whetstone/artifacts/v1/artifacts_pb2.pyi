import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ArtifactKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARTIFACT_KIND_UNSPECIFIED: _ClassVar[ArtifactKind]
    ARTIFACT_KIND_MODELS: _ClassVar[ArtifactKind]
    ARTIFACT_KIND_DATASETS: _ClassVar[ArtifactKind]
    ARTIFACT_KIND_TASKS: _ClassVar[ArtifactKind]
ARTIFACT_KIND_UNSPECIFIED: ArtifactKind
ARTIFACT_KIND_MODELS: ArtifactKind
ARTIFACT_KIND_DATASETS: ArtifactKind
ARTIFACT_KIND_TASKS: ArtifactKind

class ArtifactFile(_message.Message):
    __slots__ = ("path", "size", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("kind", "name", "digest", "files", "size", "created_at", "path")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    kind: ArtifactKind
    name: str
    digest: str
    files: _containers.RepeatedCompositeFieldContainer[ArtifactFile]
    size: int
    created_at: _timestamp_pb2.Timestamp
    path: str
    def __init__(self, kind: _Optional[_Union[ArtifactKind, str]] = ..., name: _Optional[str] = ..., digest: _Optional[str] = ..., files: _Optional[_Iterable[_Union[ArtifactFile, _Mapping]]] = ..., size: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., path: _Optional[str] = ...) -> None: ...

class BeginPushRequest(_message.Message):
    __slots__ = ("files", "kind", "name", "replace")
    FILES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[ArtifactFile]
    kind: ArtifactKind
    name: str
    replace: bool
    def __init__(self, files: _Optional[_Iterable[_Union[ArtifactFile, _Mapping]]] = ..., kind: _Optional[_Union[ArtifactKind, str]] = ..., name: _Optional[str] = ..., replace: _Optional[bool] = ...) -> None: ...

class BeginPushResponse(_message.Message):
    __slots__ = ("digest", "offsets", "complete")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    offsets: _containers.RepeatedScalarFieldContainer[int]
    complete: bool
    def __init__(self, digest: _Optional[str] = ..., offsets: _Optional[_Iterable[int]] = ..., complete: _Optional[bool] = ...) -> None: ...

class WriteChunkRequest(_message.Message):
    __slots__ = ("digest", "path", "offset", "content")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    path: str
    offset: int
    content: bytes
    def __init__(self, digest: _Optional[str] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ..., content: _Optional[bytes] = ...) -> None: ...

class WriteChunkResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class FinishPushRequest(_message.Message):
    __slots__ = ("digest", "kind", "name", "replace")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    kind: ArtifactKind
    name: str
    replace: bool
    def __init__(self, digest: _Optional[str] = ..., kind: _Optional[_Union[ArtifactKind, str]] = ..., name: _Optional[str] = ..., replace: _Optional[bool] = ...) -> None: ...

class FinishPushResponse(_message.Message):
    __slots__ = ("verified", "artifact")
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    verified: int
    artifact: Artifact
    def __init__(self, verified: _Optional[int] = ..., artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class AbortPushRequest(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...

class AbortPushResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: ArtifactKind
    def __init__(self, kind: _Optional[_Union[ArtifactKind, str]] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ("artifacts",)
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class GetArtifactRequest(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: ArtifactName
    digest: str
    def __init__(self, name: _Optional[_Union[ArtifactName, _Mapping]] = ..., digest: _Optional[str] = ...) -> None: ...

class ArtifactName(_message.Message):
    __slots__ = ("kind", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: ArtifactKind
    name: str
    def __init__(self, kind: _Optional[_Union[ArtifactKind, str]] = ..., name: _Optional[str] = ...) -> None: ...

class GetArtifactResponse(_message.Message):
    __slots__ = ("artifact",)
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class ReadFileRequest(_message.Message):
    __slots__ = ("digest", "path", "offset")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    digest: str
    path: str
    offset: int
    def __init__(self, digest: _Optional[str] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadFileResponse(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class RemoveArtifactRequest(_message.Message):
    __slots__ = ("kind", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: ArtifactKind
    name: str
    def __init__(self, kind: _Optional[_Union[ArtifactKind, str]] = ..., name: _Optional[str] = ...) -> None: ...

class RemoveArtifactResponse(_message.Message):
    __slots__ = ("digest", "freed", "jobs")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    freed: int
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., freed: _Optional[int] = ..., jobs: _Optional[_Iterable[str]] = ...) -> None: ...
