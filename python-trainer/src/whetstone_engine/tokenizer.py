# SPDX-License-Identifier: Apache-2.0
"""Text to token ids and back, and the chat template. Debugging and the gateway's first turn need it, training never."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from whetstone_engine.errors import ApiError, invalid
from whetstone_engine.wire import as_object, flag
from whetstone_models.check import chat_template
from whetstone_models.errors import ModelError


class TextCodec:
    """The tokenizer and template of a model folder. Raises ModelError if tokenizer.json is missing or unreadable."""

    def __init__(self, directory: Path) -> None:
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise ModelError("tokenizer.json", f"not found in {directory}")
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the Rust library raises a bare Exception
            raise ModelError("tokenizer.json", f"cannot be read: {error}") from error
        self.specials = _special_tokens(directory)
        try:
            self._template = _environment().from_string(chat_template(directory))
        except ModelError:
            self._template = None  # only /tokenize with messages needs one

    def serialized(self) -> str:
        """The tokenizer as the text of its tokenizer.json."""
        return self._tokenizer.to_str()

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Token ids; special tokens written out in the text become their single ids."""
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: list[int], skip_special: bool = True) -> str:
        """Text; incomplete UTF-8 shows as U+FFFD."""
        return self._tokenizer.decode(token_ids, skip_special_tokens=skip_special)

    def token_texts(self, token_ids: list[int]) -> list[str | None]:
        """The vocabulary entry of each id."""
        return [self._tokenizer.id_to_token(token) for token in token_ids]

    def token_id(self, text: str) -> int | None:
        """The id of a vocabulary entry, None if there is none."""
        return self._tokenizer.token_to_id(text)

    def render(self, body: dict[str, Any]) -> str:
        """Applies the chat template to a /tokenize request with `messages`. Raises ApiError 400."""
        if self._template is None:
            raise ApiError(400, "the model folder has no chat template", param="messages")
        messages = body["messages"]
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise invalid("messages", "must be a list of objects")
        continued = flag(body, "continue_final_message")
        options = {
            "messages": messages,
            "tools": body.get("tools"),
            "add_generation_prompt": flag(body, "add_generation_prompt", default=True) and not continued,
            **self.specials,
            **as_object(body, "chat_template_kwargs"),
        }
        try:
            text = self._template.render(**options)
        except Exception as error:  # whatever the template makes of what the client sent
            raise ApiError(400, f"the chat template failed: {error}", param="messages") from error
        return _cut_after_last(text, messages) if continued else text


def _cut_after_last(text: str, messages: list[dict[str, Any]]) -> str:
    """Drops what the template puts after the last message, so that the model goes on with it."""
    content = messages[-1].get("content") if messages else None
    at = text.rfind(content.strip()) if isinstance(content, str) else -1
    if not isinstance(content, str) or at < 0:
        raise ApiError(
            400, "continue_final_message needs a last message whose text appears in the prompt", param="messages"
        )
    return text[: at + len(content.strip())]


def _environment() -> ImmutableSandboxedEnvironment:
    """The same environment as transformers' apply_chat_template, so that templates render to the same text."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


def _special_tokens(directory: Path) -> dict[str, str]:
    """bos_token, eos_token and the like, which templates may use."""
    path = directory / "tokenizer_config.json"
    raw = json.loads(path.read_text()) if path.is_file() else {}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in raw.items()}
    return {name: text for name, text in texts.items() if name.endswith("_token") and isinstance(text, str)}
