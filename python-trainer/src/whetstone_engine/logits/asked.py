# SPDX-License-Identifier: Apache-2.0
"""The fields of a request that change logits, as vLLM names them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from whetstone_engine.errors import invalid

MAX_BIASES = 1024
MAX_BIAS = 100.0
_ANY_OBJECT = '{"type": "object"}'


@dataclass(slots=True, frozen=True)
class LogitChanges:
    """Neutral values: penalties 0, `repetition` 1, no biases, `schema` None.

    `bias` holds (token id, what is added to its logit). `schema` is the JSON schema, as text, that the answer obeys.
    """

    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    bias: tuple[tuple[int, float], ...] = ()
    schema: str | None = None


_NONE = LogitChanges()


def parse_changes(raw: dict[str, Any], prefix: str, vocabulary: int) -> LogitChanges | None:
    """None when nothing is asked for. Raises ApiError 400 with the field's path."""
    asked = LogitChanges(
        _number(raw, "presence_penalty", prefix, 0.0, (-2.0, 2.0)),
        _number(raw, "frequency_penalty", prefix, 0.0, (-2.0, 2.0)),
        _number(raw, "repetition_penalty", prefix, 1.0, (0.01, 100.0)),
        _bias(raw.get("logit_bias"), f"{prefix}logit_bias", vocabulary),
        _schema(raw.get("structured_outputs"), f"{prefix}structured_outputs"),
    )
    return None if asked == _NONE else asked


def _number(raw: dict[str, Any], name: str, prefix: str, neutral: float, bounds: tuple[float, float]) -> float:
    value = raw.get(name)
    if value is None:
        return neutral
    low, high = bounds
    if type(value) not in (int, float) or not low <= value <= high:  # also refuses NaN
        raise invalid(prefix + name, f"must be a number between {low:g} and {high:g}")
    return float(value)


def _bias(value: Any, field: str, vocabulary: int) -> tuple[tuple[int, float], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        raise invalid(field, f"must be an object of at most {MAX_BIASES} tokens")
    for name, bias in value.items():
        if not (name.isascii() and name.isdigit() and len(name) < 10 and int(name) < vocabulary):
            raise invalid(f"{field}.{name}", "is no token id of the vocabulary")
        if type(bias) not in (int, float) or not -MAX_BIAS <= bias <= MAX_BIAS:
            raise invalid(f"{field}.{name}", f"must be a number between {-MAX_BIAS:g} and {MAX_BIAS:g}")
    return tuple((int(name), float(bias)) for name, bias in value.items())


def _schema(value: Any, field: str) -> str | None:
    """`{"json": schema}`, as an object or as text, or `{"json_object": true}`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise invalid(field, "must be an object")
    asked = {name: one for name, one in value.items() if one is not None}
    if asked == {"json_object": True}:
        return _ANY_OBJECT
    schema = asked.pop("json", None)
    if asked or not isinstance(schema, dict | str):
        raise invalid(field, 'must be {"json": a schema} or {"json_object": true}; this engine has no other forms')
    return schema if isinstance(schema, str) else json.dumps(schema)
