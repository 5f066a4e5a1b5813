# SPDX-License-Identifier: Apache-2.0
"""Models that our transformer does not compute are trained by transformers, with the same numbers, and it is said."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_gradients import GRPO, alone, gradient, make_rows, scores
from trainer_client import Trainer, probability, refused, start
from trainer_kit import Sampler, Stream, group, grpo_spec
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import ConfigError
from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_models.manifest import verify_manifest
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.policy import TransformerPolicy

SIZES: dict[str, Any] = {
    "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 128, "initializer_range": 0.1,
}  # fmt: skip


def random_model(family: str, directory: Path, kind: str | None = None, **extra: Any) -> Path:
    import transformers

    torch.manual_seed(5)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **extra})
    getattr(transformers, kind or f"{family}ForCausalLM")(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def neox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model("GPTNeoX", tmp_path_factory.mktemp("models") / "neox")


class Reference(Sampler):
    """transformers as it is, one sequence at a time."""

    def load(self, folder: Path) -> torch.nn.Module:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(folder)
        return lambda ids: model(ids).logits  # type: ignore[return-value]


def test_padded_rows_score_and_train_as_packed_trees(model_path: Path) -> None:
    ours, theirs = TransformerPolicy(load_model(model_path)), HuggingFacePolicy(load_causal_lm(model_path))
    rows = make_rows(20)
    expected, found = scores(ours, rows), scores(theirs, rows)
    assert max(np.abs(found[row.episode] - expected[row.episode]).max() for row in rows) < 1e-5
    packed, padded = gradient(ours, [rows], GRPO), gradient(theirs, [rows], GRPO)
    assert packed.abs().max() > 1e-4
    assert (packed - padded).abs().max() < 1e-5


GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


@pytest.mark.parametrize(
    ("family", "extra"),
    [
        # Rotates a part of each head, has biases everywhere.
        ("GPTNeoX", {}),
        # Local attention, softcapped logits.
        ("Gemma2", {**GROUPED, "sliding_window": 4}),
        # Its file names the experts' weights otherwise than the model.
        ("Qwen3Moe", {**GROUPED, **EXPERTS}),
        # Has no attention.
        ("Mamba", {}),
    ],
)
def test_a_row_scores_in_a_batch_as_alone(family: str, extra: dict[str, Any], tmp_path: Path) -> None:
    policy, rows = HuggingFacePolicy(load_causal_lm(random_model(family, tmp_path / "model", **extra))), make_rows(12)
    found = scores(policy, rows)
    reference = Reference(tmp_path / "model").model
    for row in rows:
        np.testing.assert_allclose(found[row.episode], alone(reference, row), atol=1e-5)
    whole = gradient(policy, [rows], GRPO)
    assert (gradient(policy, [rows], GRPO, budget=20) - whole).abs().max() < 1e-5 * max(1, float(whole.abs().max()))
    policy.write(tmp_path / "v1", 1, tmp_path / "model")
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("model", "v1")]
    assert stored[0].keys() == stored[1].keys()
    policy.read(tmp_path / "v1")
    again = scores(policy, rows)
    assert all(np.array_equal(again[row.episode], found[row.episode]) for row in rows)


async def test_three_steps_of_a_model_that_our_transformer_does_not_compute(
    trainer: Trainer, stream: Stream, neox: Path, nats_url: str
) -> None:
    configured = await trainer.configure(grpo_spec(neox))
    (notice,) = configured.notices
    assert notice.reason == "NotPacked"
    for words in ("model.path: ", "GPTNeoXForCausalLM", "one padded row a sequence", "vLLM"):
        assert words in notice.message
    before, folder, result = await probability(trainer, 70), neox, wire.TrainResult()
    for step in range(3):
        # What an engine would sample with the folder that was published last.
        result = await trainer.train(await stream.manifest(step, group(Reference(folder), step, step)))
        assert result.metrics["logprob_diff/max"] < 1e-5
        assert result.metrics["logprob_diff/tokens_unchecked"] == 0
        folder = Path(result.weights.path)
        assert verify_manifest(folder).version == step + 1
    assert await probability(trainer, 70) > before
    assert json.loads((folder / "config.json").read_text()) == json.loads((neox / "config.json").read_text())
    successor, channel = await start(nats_url, trainer.run_path)
    try:
        again = await successor.configure(grpo_spec(neox))
        assert (again.step, [one.reason for one in again.notices]) == (3, ["NotPacked"])
        assert await probability(successor, 70) == await probability(trainer, 70)
        more = await successor.train(await stream.manifest(3, group(Reference(folder), 3, 3)))
        assert (more.step, more.metrics["logprob_diff/max"] < 1e-5) == (3, True)
    finally:
        await channel.close()
        await successor.server.close(0.1)


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["gpt_neox.final_layer_norm.bias"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def configured_with(**change: Any) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        raw = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**raw, **change}))

    return apply


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (without_a_tensor, "gpt_neox.final_layer_norm.bias: missing from"),
        (configured_with(vocab_size=301), "has shape [300, 32], expected [301, 32]"),
        (configured_with(quantization_config={"bits": 4}), "config.json.quantization_config: quantised weights"),
        (configured_with(model_type="of-next-year"), "neither we nor transformers know this model"),
    ],
)
async def test_a_model_that_cannot_be_trained_is_refused_by_path(
    trainer: Trainer, damage: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    folder = random_model("GPTNeoX", tmp_path / "model")
    damage(folder)
    error = await refused(asyncio.ensure_future(trainer.configure(grpo_spec(folder))))
    assert (error.details() or "").startswith(f"model.path: {folder}: ")
    assert words in (error.details() or "")


def test_a_model_for_masked_tokens_is_refused(tmp_path: Path) -> None:
    random_model("Bert", tmp_path / "model", kind="BertForMaskedLM")
    with pytest.raises(ConfigError, match="sees the tokens after the one that it predicts from"):
        load_causal_lm(tmp_path / "model")


async def test_without_transformers_the_refusal_names_it(
    trainer: Trainer, neox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    error = await refused(asyncio.ensure_future(trainer.configure(grpo_spec(neox))))
    assert "model.path" in (error.details() or "")
    assert "pip install transformers" in (error.details() or "")
