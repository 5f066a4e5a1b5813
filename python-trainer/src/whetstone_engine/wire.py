# SPDX-License-Identifier: Apache-2.0
"""Parses request bodies into `Sequence` parts; refuses by name what IEP/1 leaves out.

Left out are several choices, stop strings, and whatever else the gateway does itself. Penalties and structured outputs
look at the whole answer, so a caller cannot resubmit a partial one as prompt. Unknown fields are ignored, as in vLLM.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from whetstone_engine.adapters.adapter import Adapter
from whetstone_engine.adapters.registry import Adapters
from whetstone_engine.errors import ApiError, invalid
from whetstone_engine.logits.asked import parse_changes
from whetstone_engine.sequence import SamplingParams
from whetstone_engine.slots import MAX_STOPS

MAX_LOGPROBS = 20
MAX_TOP_K = (1 << 31) - 1  # more than any vocabulary has; the tables hold 64 bits
MIN_TEMPERATURE = 1e-5  # below it, logits divided by it leave float32; vLLM samples greedily there
MAX_DEPTH = 64  # of nested lists and objects
_FORBIDDEN: dict[str, tuple[Any, ...]] = {  # field → values that mean "off"
    "n": (1, None),
    "best_of": (1, None),
    "stop": ([], "", None),
    "bad_words": ([], None),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "response_format": (None, {"type": "text"}),
    "allowed_token_ids": (None,),
    "logprob_token_ids": (None,),
    "prompt_logprobs": (None,),
    "use_beam_search": (False, None),
    "echo": (False, None),
    "suffix": ("", None),
}
_MASK = (1 << 64) - 1


@dataclass(slots=True, frozen=True)
class Limits:
    """What a request is checked against. `served` are the model's names; those of adapters come and go."""

    served: tuple[str, ...]
    adapters: Adapters
    vocab_size: int
    max_len: int
    eos: tuple[int, ...]


@dataclass(slots=True)
class Call:
    """A parsed request of either data-plane route.

    `continuous_versions`: each chunk of a stream tells the spans so far, so that what was sent keeps its labels when
    the connection breaks (I5). `scores_prompt`: the prompt's own log-probabilities are wanted. `adapter`: the policy.
    """

    prompt: list[int]
    params: SamplingParams
    request_id: str | None
    salt: str
    stream: bool
    include_usage: bool
    return_token_ids: bool
    continuous_versions: bool = False
    scores_prompt: bool = False
    adapter: Adapter | None = None


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises ApiError 400."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, no UTF-8, or a number of thousands of digits
        raise ApiError(400, f"invalid JSON: {error}", "Bad Request", "body") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object", "Bad Request", "body")
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _check_depth(body)
    if b"\\u" in raw:
        _check_text(body)
    return body


def _check_depth(body: dict[str, Any]) -> None:
    """Deeper values end whatever walks through them, a chat template for one, with a RecursionError."""
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        inner = [value for outer in level for value in (outer.values() if isinstance(outer, dict) else outer)]
        level = [value for value in inner if isinstance(value, (list, dict))]
        if not level:
            return
    raise ApiError(400, f"values may be nested {MAX_DEPTH} deep", "Bad Request", "body")


def _check_text(body: dict[str, Any]) -> None:
    """Half a surrogate pair is valid JSON and no text: neither tokenizer nor reply could carry it."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ApiError(400, "a string holds half a surrogate pair", "Bad Request", "body") from None


def parse_generate(body: dict[str, Any], limits: Limits) -> Call:
    """POST /inference/v1/generate."""
    sampling = as_object(body, "sampling_params")
    prompt = check_tokens(body.get("token_ids"), "token_ids", limits)
    scores_prompt = sampling.get("prompt_logprobs") is not None
    if scores_prompt:
        _integer(sampling, "prompt_logprobs", "sampling_params.", 0, 0, 0)  # Each token's own, without alternatives.
        sampling = {**sampling, "prompt_logprobs": None}
    call = _call(body, sampling, prompt, _params(sampling, "sampling_params.", len(prompt), limits), limits)
    if scores_prompt and call.stream:
        raise invalid("sampling_params.prompt_logprobs", "is not given in a stream")
    call.scores_prompt = scores_prompt
    return call


def parse_completion(body: dict[str, Any], prompt: list[int], limits: Limits) -> Call:
    """POST /v1/completions, whose prompt has been turned into checked token ids already."""
    sampling = {"max_tokens": 16, **body}  # the OpenAI default
    return _call(body, sampling, prompt, _params(sampling, "", len(prompt), limits), limits)


def _call(
    body: dict[str, Any], sampling: dict[str, Any], prompt: list[int], params: SamplingParams, limits: Limits
) -> Call:
    adapter = check_model(body, limits)
    for name, neutral in _FORBIDDEN.items():
        if name in sampling and sampling[name] not in neutral:
            raise invalid(name, "is not supported by this engine")
    options = as_object(body, "stream_options")
    request_id = body.get("request_id")
    if request_id is not None and not isinstance(request_id, str):
        raise invalid("request_id", "must be a string")
    return Call(
        prompt=prompt,
        params=params,
        request_id=request_id,
        salt=_salt(body.get("cache_salt")),
        stream=flag(body, "stream"),
        include_usage=flag(options, "include_usage", "stream_options."),
        return_token_ids=flag(body, "return_token_ids"),
        continuous_versions=flag(options, "continuous_weight_versions", "stream_options."),
        adapter=adapter,
    )


def as_object(body: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that is an object; {} when it is not given."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(name, "must be an object")
    return value


def flag(raw: dict[str, Any], name: str, prefix: str = "", default: bool = False) -> bool:
    """A field that is true or false; a text such as "false" would otherwise count as true."""
    value = raw.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise invalid(prefix + name, "must be true or false")
    return value


def check_model(body: dict[str, Any], limits: Limits) -> Adapter | None:
    """The adapter that a name stands for; None: the model itself, as where there is no name. Raises ApiError 404."""
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise invalid("model", "must be a string")
    if not model or model in limits.served:
        return None
    adapter = limits.adapters.get(model)
    if adapter is None:
        raise ApiError(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    return adapter


def check_tokens(value: Any, field: str, limits: Limits) -> list[int]:
    """A non-empty list of ids of the vocabulary that leaves room for at least one more token. Raises ApiError 400."""
    if not isinstance(value, list) or not value:
        raise invalid(field, "must be a non-empty list of token ids")
    if not all(type(token) is int for token in value):
        raise invalid(field, "every token id must be an integer")
    if min(value) < 0:
        raise invalid(field, f"token id {min(value)} is negative")
    if max(value) >= limits.vocab_size:
        raise ApiError(400, f"Token id {max(value)} is out of vocabulary", param=field)
    if len(value) >= limits.max_len:
        reason = (
            f"the prompt has {len(value)} tokens, but the maximum context is {limits.max_len} tokens including output"
        )
        raise ApiError(400, reason, param=field)
    return value


def _params(raw: dict[str, Any], prefix: str, prompt_length: int, limits: Limits) -> SamplingParams:
    room = limits.max_len - prompt_length
    max_tokens = _integer(raw, "max_tokens", prefix, room, 1)
    min_tokens = _integer(raw, "min_tokens", prefix, 0, 0)
    if min_tokens > max_tokens:
        raise invalid(f"{prefix}min_tokens", f"{min_tokens} is more than max_tokens {max_tokens}")
    logprobs = raw.get("logprobs")
    if logprobs is not None:
        logprobs = _integer(raw, "logprobs", prefix, 0, 0, MAX_LOGPROBS)
    seed = raw.get("seed")
    logits = parse_changes(raw, prefix, limits.vocab_size)
    ignore_eos = flag(raw, "ignore_eos", prefix)
    if ignore_eos and logits is not None and logits.schema is not None:
        raise invalid(f"{prefix}structured_outputs", "an answer in this form ends by itself; leave ignore_eos out")
    return SamplingParams(
        max_tokens=max_tokens,
        seed=random.getrandbits(64) if seed is None else _integer(raw, "seed", prefix, 0, -(1 << 63), _MASK) & _MASK,
        temperature=_temperature(raw, prefix),
        top_p=_number(raw, "top_p", prefix, 1.0, 1e-9, 1.0),
        top_k=max(_integer(raw, "top_k", prefix, 0, -1, MAX_TOP_K), 0),
        min_p=_number(raw, "min_p", prefix, 0.0, 0.0, 1.0),
        min_tokens=min(min_tokens, room),
        stop_token_ids=_stops(raw.get("stop_token_ids"), prefix, limits),
        ignore_eos=ignore_eos,
        logprobs=logprobs,
        logits=logits,
    )


def _temperature(raw: dict[str, Any], prefix: str) -> float:
    value = _number(raw, "temperature", prefix, 1.0, 0.0, 2.0)
    if 0.0 < value < MIN_TEMPERATURE:
        raise invalid(f"{prefix}temperature", f"{value:g} is below {MIN_TEMPERATURE:g}; 0 takes the likeliest token")
    return value


def _integer(raw: dict[str, Any], name: str, prefix: str, default: int, low: int, high: int | None = None) -> int:
    value = raw.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise invalid(prefix + name, f"must be an integer, not {type(value).__name__}")
    if value < low or (high is not None and value > high):
        raise invalid(prefix + name, f"{value} is outside {low}..{'' if high is None else high}")
    return value


def _number(raw: dict[str, Any], name: str, prefix: str, default: float, low: float, high: float) -> float:
    value = raw.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise invalid(prefix + name, f"must be a number, not {type(value).__name__}")
    if not low <= value <= high:  # also refuses NaN
        raise invalid(prefix + name, f"{value} is outside {low:g}..{high:g}")
    return float(value)


def _stops(value: Any, prefix: str, limits: Limits) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise invalid(f"{prefix}stop_token_ids", "must be a list of token ids")
    if not all(0 <= token < limits.vocab_size for token in value):
        raise invalid(f"{prefix}stop_token_ids", "holds an id outside the vocabulary")
    if len(value) + len(limits.eos) > MAX_STOPS:
        raise invalid(f"{prefix}stop_token_ids", f"at most {MAX_STOPS - len(limits.eos)} ids are supported")
    return tuple(value)


def _salt(value: Any) -> str:
    """Separates prefix caches. The same limits as vLLM, which refuses `policy@v42` but takes `policy:v42`."""
    if value is None:
        return ""
    if not isinstance(value, str) or not 1 <= len(value) <= 128 or any(c in value for c in "@/\\\0"):
        raise invalid("cache_salt", "must be 1..128 characters without '@', '/', '\\' and NUL")
    return value
