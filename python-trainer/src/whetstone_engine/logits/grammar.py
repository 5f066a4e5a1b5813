# SPDX-License-Identifier: Apache-2.0
"""Answers that obey a JSON schema, token by token, by llguidance (https://github.com/guidance-ai/llguidance)."""

from __future__ import annotations

import functools

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from whetstone_engine.errors import ApiError

# Between the parts of a value. Unbounded, a model that has not learned to end could fill an answer with it.
_WHITESPACE = r"[ \n\r\t]{0,16}"


class Grammars:
    """The grammars of one vocabulary. The tables for it are made when the first one is asked for."""

    def __init__(self, tokenizer_json: str, vocabulary: int, eos: tuple[int, ...]) -> None:
        self._tokenizer_json, self._vocabulary, self._eos = tokenizer_json, vocabulary, eos

    @functools.cached_property
    def _tokenizer(self) -> LLTokenizer:
        return LLTokenizer(self._tokenizer_json, n_vocab=self._vocabulary, eos_token=list(self._eos))

    def of_schema(self, schema: str) -> Grammar:
        """Takes milliseconds to seconds. Raises ApiError 400 for a schema that it cannot keep to."""
        text = ""
        try:
            text = LLMatcher.grammar_from_json_schema(schema, defaults={"whitespace_pattern": _WHITESPACE})
            fault = LLMatcher.validate_grammar(text, self._tokenizer)
        except ValueError as error:
            fault = str(error)
        if fault:
            raise ApiError(400, f"structured_outputs: {fault}", param="structured_outputs")
        return Grammar(LLMatcher(self._tokenizer, text), self._vocabulary)


class Grammar:
    """What one answer may go on with. `fed`: how many of its tokens it has seen."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self._matcher, self._vocabulary = matcher, vocabulary
        self._fed = 0
        self._words = np.zeros(-(-vocabulary // 32), np.int32)

    def allowed(self, answer: NDArray[np.int64]) -> NDArray[np.bool_]:
        """[V]: the tokens that may come after `answer`; end tokens only, once it is whole. Raises RuntimeError."""
        self._matcher.consume_tokens(answer[self._fed :].tolist())
        self._fed = len(answer)
        self._matcher.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        if self._matcher.is_error():
            raise RuntimeError(f"the form cannot be kept: {self._matcher.get_error()}")
        return np.unpackbits(self._words.view(np.uint8), count=self._vocabulary, bitorder="little").view(np.bool_)
