# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_models init|import|check|chat`: makes, imports and checks model folders.

Exit codes: 0 done, 2 the request cannot be fulfilled (one line on stderr, JSON with --json).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from whetstone_models.errors import ModelError


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; torch is imported only by those that need it."""
    options = _parser().parse_args(arguments)
    try:
        result = {"init": _init, "import": _import, "check": _check, "chat": _chat}[options.command](options)
    except ModelError as error:
        return _fail(error, options.json)
    except OSError as error:
        return _fail(ModelError("directory", str(error)), options.json)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="whetstone_models", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser("init", help="make a random model with a byte-level tokenizer")
    init.add_argument("directory", type=Path)
    init.add_argument("--preset", default="tiny", help="tiny (0.36 M parameters), small (10 M), llama-135m")
    init.add_argument("--seed", type=int, default=0)
    init.add_argument("--vocab-size", type=int, help="at least 262, the size of the tokenizer")
    init.add_argument("--max-position", type=int, help="longest context in tokens")
    init.add_argument("--initializer-range", type=float, help="standard deviation of the random weights, default 0.02")
    imported = commands.add_parser("import", help="import a Hugging Face folder or a .gguf file")
    imported.add_argument("directory", type=Path)
    imported.add_argument("--source", type=Path, required=True)
    check = commands.add_parser("check", help="check that a folder can be trained")
    check.add_argument("directory", type=Path)
    chat = commands.add_parser("chat", help="write what transformers makes of generated conversations")
    chat.add_argument("directory", type=Path)
    chat.add_argument("--output", type=Path, required=True, help="a JSON file: conversations with text and ids")
    chat.add_argument("--count", type=int, default=240, help="how many conversations")
    for command in (init, imported, check, chat):
        command.add_argument("--json", action="store_true", help="one line of JSON, also for errors")
    return parser


def _init(options: argparse.Namespace) -> dict[str, Any]:
    from whetstone_models.check import check_model
    from whetstone_models.init import init_model

    overrides = {
        "vocab_size": options.vocab_size,
        "max_position_embeddings": options.max_position,
        "initializer_range": options.initializer_range,
    }
    init_model(options.directory, options.preset, options.seed, **overrides)
    return {"directory": str(options.directory), **check_model(options.directory)}


def _import(options: argparse.Namespace) -> dict[str, Any]:
    from whetstone_models.importing import import_model

    return {"directory": str(options.directory), **import_model(options.source, options.directory)}


def _check(options: argparse.Namespace) -> dict[str, Any]:
    from whetstone_models.check import check_model

    return {"directory": str(options.directory), **check_model(options.directory)}


def _chat(options: argparse.Namespace) -> dict[str, Any]:
    from whetstone_models.chat import conversations, rendered

    results = rendered(options.directory, conversations(options.count))
    options.output.write_text(json.dumps(results))
    return {"directory": str(options.directory), "conversations": len(results)}


def _fail(error: ModelError, as_json: bool) -> int:
    print(json.dumps(error.as_json()) if as_json else f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
