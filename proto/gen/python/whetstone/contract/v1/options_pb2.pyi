from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
default_value: _descriptor.FieldDescriptor
HINT_FIELD_NUMBER: _ClassVar[int]
hint: _descriptor.FieldDescriptor
UNIQUE_BY_FIELD_NUMBER: _ClassVar[int]
unique_by: _descriptor.FieldDescriptor
MUTABLE_FIELD_NUMBER: _ClassVar[int]
mutable: _descriptor.FieldDescriptor
NOT_IN_OBJECT_FIELD_NUMBER: _ClassVar[int]
not_in_object: _descriptor.FieldDescriptor
