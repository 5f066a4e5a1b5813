# SPDX-License-Identifier: Apache-2.0
"""Is a folder fit for training? Configuration supported, weights complete, tokenizer and chat template present."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from whetstone_models.config import ModelConfig, read_config
from whetstone_models.errors import ModelError


def check_model(directory: Path) -> dict[str, Any]:
    """A summary of the folder for the user. Raises a ModelError naming the first thing that is wrong."""
    if not directory.is_dir():
        raise ModelError("model", f"{directory} is not a folder")
    config = read_config(directory)
    tokenizer_size = check_tokenizer(directory, config)
    chat_template(directory)
    from whetstone_models.folder import check_weights, expected_shapes  # imports torch: last, so other errors are fast

    check_weights(directory, config)
    return {
        "model_type": config.model_type,
        "parameters": sum(math.prod(shape) for shape in expected_shapes(config).values()),
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "tokenizer_size": tokenizer_size,
        "max_position": config.max_position,
    }


def check_tokenizer(directory: Path, config: ModelConfig) -> int:
    """The number of tokens in tokenizer.json. Raises ModelError if missing, unreadable, or larger than the model."""
    from tokenizers import Tokenizer

    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ModelError("tokenizer.json", f"not found in {directory}")
    try:
        size = Tokenizer.from_file(str(path)).get_vocab_size(with_added_tokens=True)
    except Exception as error:  # the Rust library raises a bare Exception
        raise ModelError("tokenizer.json", f"cannot be read: {error}") from error
    if size > config.vocab_size:
        raise ModelError("tokenizer.json", f"has {size} tokens but the model has only {config.vocab_size}")
    return size


def chat_template(directory: Path) -> str:
    """The chat template, from chat_template.jinja or tokenizer_config.json. Raises ModelError if there is none."""
    if (directory / "chat_template.jinja").is_file():
        return (directory / "chat_template.jinja").read_text()
    path = directory / "tokenizer_config.json"
    try:
        template = json.loads(path.read_text()).get("chat_template") if path.is_file() else None
    except (json.JSONDecodeError, AttributeError) as error:
        raise ModelError("tokenizer_config.json", f"not a valid JSON object: {error}") from error
    if isinstance(template, list):  # several named templates; "default" is the one for chat
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    if not isinstance(template, str) or not template:
        raise ModelError("chat_template", "neither chat_template.jinja nor tokenizer_config.json has a chat template")
    return template
