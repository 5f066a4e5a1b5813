# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_models`: making, importing and checking folders, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from whetstone_models.__main__ import main
from whetstone_models.folder import load_model
from whetstone_models.init import EOS, init_model
from whetstone_models.manifest import verify_manifest

SOURCE = Path(__file__).parents[2] / "src"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main([*arguments, "--json"])
    captured = capsys.readouterr()
    lines = (captured.err if code else captured.out).strip().splitlines()
    assert len(lines) == 1
    return code, json.loads(lines[0])


def test_init_is_deterministic_by_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        init_model(tmp_path / name, seed=seed)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1] != weights[2]


def test_init_then_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, made = run(capsys, "init", str(tmp_path / "m"))
    assert (code, made["vocab_size"], made["tokenizer_size"]) == (0, 262, 262)
    assert run(capsys, "check", str(tmp_path / "m"))[0] == 0
    assert verify_manifest(tmp_path / "m").version == 0
    code, error = run(capsys, "init", str(tmp_path / "m"))
    assert (code, error["error"]["field"]) == (2, "directory")


def test_init_spreads_the_weights_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "init", str(tmp_path / "m"), "--initializer-range", "0.1")[0] == 0
    assert json.loads((tmp_path / "m/config.json").read_text())["initializer_range"] == 0.1
    weights = dict(load_model(tmp_path / "m").named_parameters())
    assert float(weights["model.layers.0.mlp.gate_proj.weight"].detach().std()) == pytest.approx(0.1, rel=0.05)
    for bad in ("0", "-1", "1.5", "nan"):
        code, error = run(capsys, "init", str(tmp_path / "bad"), "--initializer-range", bad)
        assert (code, error["error"]["field"]) == (2, "config.json.initializer_range")
    assert not (tmp_path / "bad").exists()


def test_tokenizer_and_template_are_what_transformers_reads(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    init_model(tmp_path / "m")
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "m")
    text = "SFFF\nHé→ \x00\xff  two"
    assert tokenizer(text)["input_ids"] == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "L"}]
    ids = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, return_dict=False)
    assert ids == [256, *b"hi", 257]
    assert tokenizer.apply_chat_template(messages, return_dict=False) == [256, *b"hi", 257, *b"L", EOS]
    assert tokenizer.eos_token_id == EOS


@pytest.mark.parametrize(
    ("removed", "field"),
    [("tokenizer.json", "tokenizer.json"), ("config.json", "config.json"), ("tokenizer_config.json", "chat_template"),
     ("model.safetensors", "model.safetensors")],
)  # fmt: skip
def test_check_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], removed: str, field: str
) -> None:
    init_model(tmp_path / "m")
    (tmp_path / "m" / removed).unlink()
    code, error = run(capsys, "check", str(tmp_path / "m"))
    assert (code, error["error"]["field"]) == (2, field)


def test_check_says_which_engine_serves_a_model_that_ours_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init_model(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"architectures": ["GPTNeoXForCausalLM"]}))
    code, error = run(capsys, "check", str(tmp_path / "m"))
    assert (code, error["error"]["field"]) == (2, "config.json.architectures")
    assert "cannot be served by the PyTorch engine" in error["error"]["reason"]
    assert "with vLLM as engine it can be trained" in error["error"]["reason"]


def test_import_copies_a_folder_and_refuses_an_incomplete_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init_model(tmp_path / "m")
    (tmp_path / "m" / "optimizer.bin").write_bytes(b"left over")
    code, _ = run(capsys, "import", str(tmp_path / "copy"), "--source", str(tmp_path / "m"))
    assert code == 0
    assert "optimizer.bin" not in verify_manifest(tmp_path / "copy").files
    (tmp_path / "m" / "tokenizer_config.json").unlink()
    code, error = run(capsys, "import", str(tmp_path / "bad"), "--source", str(tmp_path / "m"))
    assert (code, error["error"]["field"]) == (2, "chat_template")
    assert not (tmp_path / "bad").exists()


def test_import_refuses_a_file_that_is_not_gguf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    code, error = run(capsys, "import", str(tmp_path / "m"), "--source", str(tmp_path / "x.gguf"))
    assert (code, error["error"]["field"]) == (2, "source")


def test_module_runs_and_fails_without_importing_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from whetstone_models.__main__ import main; "
        "c = main(sys.argv[1:]); assert 'torch' not in sys.modules; sys.exit(c)"
    )
    command = [sys.executable, "-c", code, "check", str(tmp_path / "none"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, check=False)
    assert done.returncode == 2, done.stderr
    assert json.loads(done.stderr)["error"]["field"] == "model"
