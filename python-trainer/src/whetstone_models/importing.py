# SPDX-License-Identifier: Apache-2.0
"""Brings an existing model, a Hugging Face folder or a GGUF file, into a folder that `check_model` accepts."""

from __future__ import annotations

import json
import os
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
    os.environ.setdefault("TQDM_DISABLE", "1")  # stderr is for the one line that says what went wrong
    try:
        import gguf
        import torch
        from safetensors.torch import save_file
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    except ImportError as error:
        raise ModelError("source", f"importing GGUF needs the packages transformers and gguf: {error}") from error
    try:
        _refuse_frequency_table(gguf.GGUFReader(source))
        place: dict[str, Any] = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
        tokenizer: Any = AutoTokenizer.from_pretrained(**place)
        config: Any = AutoConfig.from_pretrained(**place)
        # Below from_pretrained, which would ask for one more package and try to keep the quantised form.
        with torch.device("meta"):
            names: Any = AutoModelForCausalLM.from_config(config)
        tensors = load_gguf_checkpoint(str(source), return_tensors=True, model_to_load=names)["tensors"]
    except (ImportError, OSError, ValueError, KeyError, IndexError, RuntimeError) as error:
        raise ModelError("source", f"cannot read {source.name} as GGUF: {error}") from error
    state = {name: tensor.float().contiguous() for name, tensor in tensors.items()}
    save_file(state, staging / "model.safetensors", metadata={"format": "pt"})
    _write_config(config.to_dict(), type(names).__name__, staging)
    tokenizer.save_pretrained(staging)


def _refuse_frequency_table(reader: Any) -> None:
    """Llama 3.1 and later store their scaled rotary frequencies as a tensor, which the loader would drop in silence."""
    if any(tensor.name == "rope_freqs.weight" for tensor in reader.tensors):
        raise ModelError("source", "the file scales its rotary embedding by a table; import the safetensors folder")


def _write_config(config: dict[str, Any], architecture: str, staging: Path) -> None:
    dropped = ("quantization_config", "_name_or_path")
    kept = {name: value for name, value in config.items() if name not in dropped}
    kept |= {"architectures": [architecture], "dtype": "float32"}
    (staging / "config.json").write_text(json.dumps(kept, indent=1, default=str) + "\n")
