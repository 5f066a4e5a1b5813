# SPDX-License-Identifier: Apache-2.0
"""What the contract says of its fields beside their types: read from the descriptors, nothing is repeated here.

The rules between fields are CEL and stay with the controller, which has checked a job before it configures a trainer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from buf.validate import validate_pb2 as validate
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from whetstone.contract.v1 import options_pb2 as options

from whetstone_trainer.contract.errors import SettingsError

M = TypeVar("M", bound=Message)
# The stubs of protobuf know two classes of descriptors, and neither by the other's name.
Field = Any
RANGED = ("double", "uint32", "uint64")


def with_defaults(message: M) -> M:
    """A copy with every default filled in, at every depth. What is absent then has a meaning by its absence."""
    copy = type(message)()
    copy.CopyFrom(message)
    _fill(copy)
    return copy


def check(message: Message) -> None:
    """Raises SettingsError naming the first field that breaks its rule."""
    for path, reason in _broken(message, ""):
        raise SettingsError(path, reason)


def _option(of: Any, extension: Any) -> Any:
    return of.GetOptions().Extensions[extension]


def _fill(message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        default = _option(field, options.default_value)
        if default and not _is_set(message, field):
            ParseDict({field.json_name: {} if default == "{}" else _typed(field, default)}, message)
        for _, inner in _messages_in(message, field):
            _fill(inner)


def _typed(field: Field, default: str) -> Any:
    """Numbers are numbers in JSON, and text is read as numbers, too; "true" is not."""
    return default == "true" if field.type == FieldDescriptor.TYPE_BOOL else default


def _broken(message: Message, path: str) -> Iterator[tuple[str, str]]:
    for oneof in message.DESCRIPTOR.oneofs:
        if _option(oneof, validate.oneof).required and message.WhichOneof(oneof.name) is None:
            yield path, f"needs one of {', '.join(field.json_name for field in oneof.fields)}"
    for field in message.DESCRIPTOR.fields:
        at = f"{path}.{field.json_name}" if path else field.json_name
        for reason in _broken_field(message, field):
            yield at, reason
        seen = set()
        unique_by = _option(field, options.unique_by)
        for index, inner in _messages_in(message, field):
            below = at if index is None else f"{at}[{index}]"
            yield from _broken(inner, below)
            name = getattr(inner, unique_by) if unique_by else None
            if name is not None and name in seen:
                yield f"{below}.{unique_by}", f'"{name}" is there already'
            seen.add(name)


def _broken_field(message: Message, field: Field) -> Iterator[str]:
    rules = _option(field, validate.field)
    is_set, value = _is_set(message, field), getattr(message, field.name)
    hint = _option(field, options.hint)
    if rules.required and not is_set:
        yield f"is required: {hint}" if hint else "is required"
    elif field.enum_type is not None and value not in field.enum_type.values_by_number:
        yield f"{value} is unknown"
    elif rules.WhichOneof("type") in RANGED and (is_set or not field.has_presence):
        bounds = getattr(rules, rules.WhichOneof("type"))
        low, high = bounds.WhichOneof("greater_than"), bounds.WhichOneof("less_than")
        # NaN is in no range.
        over = low is None or (value > bounds.gt if low == "gt" else value >= bounds.gte)
        under = high is None or value <= bounds.lte
        if not (over and under):
            yield f"must be {_range(bounds, low, high)}, got {value:.12g}" + (f": {hint}" if hint else "")


def _range(bounds: Any, low: str | None, high: str | None) -> str:
    """In the words of the controller: services/libs/core/src/range.ts."""
    most = f"{bounds.lte:.12g}" if high else ""
    if low is None:
        return f"from 0 to {most}"
    if low == "gt":
        return f"above {bounds.gt:.12g}" + (f" and at most {most}" if most else "")
    return f"from {bounds.gte:.12g} to {most}" if most else f"at least {bounds.gte:.12g}"


def _is_set(message: Message, field: Field) -> bool:
    """Without presence, a field that has its type's zero is not there."""
    return message.HasField(field.name) if field.has_presence else bool(getattr(message, field.name))


def _messages_in(message: Message, field: Field) -> Iterator[tuple[int | None, Message]]:
    """Of the contract's own types, with their index in a list."""
    if field.message_type is None or field.message_type.full_name.startswith("google.protobuf."):
        return
    if field.is_repeated:
        yield from enumerate(getattr(message, field.name))
    elif message.HasField(field.name):
        yield None, getattr(message, field.name)
