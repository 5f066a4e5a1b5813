# SPDX-License-Identifier: Apache-2.0
"""Arguments of a constructor: their JSON Schema from its signature, and values from JSON checked against it."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from whetstone_env.errors import TaskError

# Annotations that JSON has words for; others are taken as they are.
JSON_TYPES: Mapping[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
Schema = dict[str, Any]
# As in services/libs/core/src/artifacts.ts.
ARTIFACT = "artifact://"


class Arguments:
    """What a constructor takes by name."""

    def __init__(self, constructor: Callable[..., Any]) -> None:
        parameters = inspect.signature(constructor, eval_str=True).parameters.values()
        self._named = {each.name: each for each in parameters if each.kind is not each.VAR_KEYWORD}
        self._open = any(each.kind is each.VAR_KEYWORD for each in parameters)
        wrong = [name for name, each in self._named.items() if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL)]
        if wrong:
            raise TypeError(f"arguments come by name, so its constructor cannot take {', '.join(wrong)} by position")

    def names(self, name: str) -> bool:
        """Not only as one of any."""
        return name in self._named

    @property
    def schema(self) -> Schema:
        """JSON Schema of an object."""
        properties = {name: self._property(each) for name, each in self._named.items()}
        required = [name for name, each in self._named.items() if each.default is each.empty]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": self._open,
        }

    def parse(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Raises TaskError with the path of the first argument that is unknown, missing or of another type."""
        for name, value in args.items():
            if _names_artifact(value):
                raise TaskError("environments in Python get no artifacts: name a path on their machine", f"args.{name}")
            if not self._open and name not in self._named:
                known = ", ".join(self._named) or "none"
                raise TaskError(f"unknown setting; known: {known}", f"args.{name}")
        for name, each in self._named.items():
            if each.default is each.empty and name not in args:
                raise TaskError("is required", f"args.{name}")
        return {name: self._value(name, value) for name, value in args.items()}

    def _value(self, name: str, value: Any) -> Any:
        each = self._named.get(name)
        return value if each is None or each.annotation is each.empty else read_value(each.annotation, value, name)

    def _property(self, each: inspect.Parameter) -> Schema:
        schema = {} if each.annotation is each.empty else schema_of(each.annotation)
        has_default = each.default is not each.empty and isinstance(each.default, bool | int | float | str)
        return {**schema, "default": each.default} if has_default else schema


def _names_artifact(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_names_artifact, value.values()))
    if isinstance(value, list):
        return any(map(_names_artifact, value))
    return isinstance(value, str) and value.startswith(ARTIFACT)


def schema_of(annotation: Any) -> Schema:
    """Of a type; `{}`, anything, where JSON has no words for it."""
    if annotation in JSON_TYPES:
        return {"type": JSON_TYPES[annotation]}
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(each) for each in inner]}
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0])}
    return {"type": JSON_TYPES[origin]} if origin in JSON_TYPES else {}


def read_value(annotation: Any, value: Any, name: str) -> Any:
    """The value as the annotation says. All numbers of JSON come as float."""
    whole = isinstance(value, float) and value.is_integer()
    schema = schema_of(annotation)
    options: list[Schema] = schema.get("anyOf", [schema])
    if whole and any(option.get("type") == "integer" or 0 in option.get("enum", ()) for option in options):
        value = int(value)
    if any(_fits(option, value) for option in options):
        return value
    raise TaskError(f"must be {' or '.join(map(_words, options))}, not {value!r}", f"args.{name}")


def _fits(schema: Schema, value: Any) -> bool:
    if "enum" in schema:
        return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in schema["enum"])
    kind = schema.get("type")
    if kind is None:
        return True
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, next(each for each, name in JSON_TYPES.items() if name == kind))


def _words(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(repr(each) for each in schema["enum"])
    words = {
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "string": "a string",
        "array": "a list",
        "object": "an object",
    }
    kind: str = schema.get("type", "anything")
    return words.get(kind, kind)
