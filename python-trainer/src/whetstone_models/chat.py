# SPDX-License-Identifier: Apache-2.0
"""What transformers makes of conversations with a model folder: the gateway must make the same.

The conversations are made from a seed: words of many scripts, special tokens and thoughts within texts, calls of tools.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from whetstone_models.check import chat_template
from whetstone_models.errors import ModelError

WORDS = [
    *[
        "the",
        "quick",
        "answer",
        "don't",
        "123",
        "naïve",
        "日本語",
        "🙂",
        "\n",
        "  ",
        '{"a": 1}',
        "\tx",
        "é",
        "'LL",
        "ǅ",
    ],
    *["<|im_end|>", "</think>", "<|end|>", "<s>", "[INST]", "<|eot_id|>", "e\u0301", "\u200d", "العربية", "\r\n"],
]
TOOL_NAME = "get_temperature"
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Says how warm it is.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": 'Ort – "ü"'}}},
    },
}

Conversation = dict[str, Any]


def conversations(count: int, seed: int = 5) -> list[Conversation]:
    """`count` of {"messages", "tools"}; a third of them calls tools, a quarter has a system message."""
    rng = random.Random(seed)
    return [_conversation(rng, index) for index in range(count)]


def _conversation(rng: random.Random, index: int) -> Conversation:
    calls_tools = index % 3 == 0

    def text() -> str:
        return rng.choice(["", " "]).join(rng.choice(WORDS) for _ in range(rng.randint(1, 8)))

    messages: list[dict[str, Any]] = [{"role": "system", "content": text()}] if index % 4 == 1 else []
    for turns_left in range(rng.randint(0, 3), -1, -1):
        messages.append({"role": "user", "content": text()})
        if calls_tools:
            arguments = {"city": text(), "days": rng.randint(0, 8)}
            # Nine letters or digits: templates of Mistral insist on it.
            call = {"id": "call00001", "type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "content": text(), "tool_call_id": "call00001"})
        elif turns_left > 0:
            messages.append({"role": "assistant", "content": rng.choice(["", "<think>\nhm\n</think>\n\n"]) + text()})
    return {"messages": messages, "tools": [TOOL] if calls_tools else None}


def rendered(directory: Path, asked: list[Conversation]) -> list[Conversation]:
    """Each conversation with "text", "ids" and "decoded" (ids without special tokens), or with "refused".

    Raises ModelError when transformers cannot read the folder.
    """
    from transformers import AutoTokenizer

    chat_template(directory)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    except Exception as error:  # whatever a damaged file makes of it
        raise ModelError("tokenizer", f"transformers cannot read it: {error}") from error
    return [{**conversation, **_one(tokenizer, conversation)} for conversation in asked]


def _one(tokenizer: Any, conversation: Conversation) -> dict[str, Any]:
    options = {"tools": conversation["tools"], "add_generation_prompt": True}
    try:
        text = tokenizer.apply_chat_template(conversation["messages"], tokenize=False, **options)
        ids = tokenizer.apply_chat_template(conversation["messages"], tokenize=True, return_dict=False, **options)
    except Exception as error:  # a template may refuse by any of Jinja's errors
        return {"refused": str(error)}
    decoded = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return {"text": text, "ids": ids, "decoded": decoded}
