"""Brings an existing model, a Hugging Face folder or a GGUF file, into a folder that `check_model` accepts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from whetstone_models.check import check_model
from whetstone_models.errors import ModelError
from whetstone_models.manifest import publish_directory, staging_directory


def import_model(source: Path, directory: Path) -> dict[str, Any]:
    """Copies or converts `source` into the new folder `directory` and returns `check_model`'s summary.

    Raises ModelError if the result could not be trained (then nothing is left behind), FileExistsError if
    `directory` exists.
    """
    with staging_directory(directory) as staging:
        if source.is_dir():
            _copy_folder(source, staging)
        elif source.suffix == ".gguf" and source.is_file():
            _convert_gguf(source, staging)
        else:
            raise ModelError("source", f"{source} is neither a model folder nor a .gguf file")
        summary = check_model(staging)
        publish_directory(staging, directory, version=0)
    return summary


def _copy_folder(source: Path, staging: Path) -> None:
    """Only what a folder needs: no .bin twins of the weights, no training leftovers, no code."""
    from whetstone_models.folder import COPIED, INDEX, weight_files

    for name in (*COPIED, INDEX):
        if (source / name).is_file():
            shutil.copyfile(source / name, staging / name)
    for file in weight_files(source):
        shutil.copyfile(file, staging / file.name)


def _convert_gguf(source: Path, staging: Path) -> None:
    """Dequantises to float32 through transformers' GGUF loader, which also rebuilds tokenizer and chat template."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ModelError("source", "importing GGUF needs the packages transformers and gguf") from error
    import torch
    from safetensors.torch import save_file

    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**place)
        model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise ModelError("source", f"cannot read {source.name} as GGUF: {error}") from error
    # save_pretrained would try to save the quantised form, so weights and config.json are written by hand.
    tied = bool(model.config.tie_word_embeddings)
    state = {n: t.contiguous().clone() for n, t in model.state_dict().items() if not (tied and n == "lm_head.weight")}
    save_file(state, staging / "model.safetensors", metadata={"format": "pt"})
    _write_config(model.config.to_dict(), type(model).__name__, staging)
    tokenizer.save_pretrained(staging)


def _write_config(config: dict[str, Any], architecture: str, staging: Path) -> None:
    dropped = ("quantization_config", "_name_or_path")
    kept = {name: value for name, value in config.items() if name not in dropped}
    kept |= {"architectures": [architecture], "dtype": "float32"}
    (staging / "config.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")
