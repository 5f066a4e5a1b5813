# SPDX-License-Identifier: Apache-2.0
"""A micro-batch that does not fit into memory is cut smaller; the gradient stays the same (I10)."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from trainer_client import Trainer, refused, start
from trainer_kit import PROMPT, Sampler, Stream, Turn, grpo_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.transformer import Transformer


def long_answers(sampler: Sampler) -> list[types.Episode]:
    """Four rows of 300 ids and more, which share a short prompt."""
    turns = [[Turn(PROMPT, [70 + i, *([65] * (300 + i)), 260])] for i in range(4)]
    return [sampler.episode(0, i, turn, float(i % 2)) for i, turn in enumerate(turns)]


def limit_memory(
    monkeypatch: pytest.MonkeyPatch, tokens: int, *, in_backward: bool = False, spared: int = 0
) -> list[int]:
    """The real model, in a memory that holds so many ids of one forward pass. Answers the sizes that were tried.

    `in_backward`: only the pass back needs it, so that the check before it goes well. `spared`: so many passes back
    find room all the same, so that a part of the gradient is there when memory runs out.
    """
    run, tried, back = Transformer.run, [], []

    def limited(self: Transformer, token_ids: torch.Tensor, *arguments: Any) -> torch.Tensor:
        tried.append(token_ids.numel())
        out = run(self, token_ids, *arguments)
        if self.model.recompute:
            return out
        if token_ids.numel() > tokens and not in_backward:
            raise torch.OutOfMemoryError("out of memory")
        if token_ids.numel() > tokens and out.requires_grad and len(back) >= spared:
            out.register_hook(_fails)
        if out.requires_grad:
            back.append(token_ids.numel())
        return out

    monkeypatch.setattr(Transformer, "run", limited)
    return tried


def _fails(_: torch.Tensor) -> None:
    raise torch.OutOfMemoryError("out of memory")


def _never_fits(*_: Any) -> torch.Tensor:
    raise torch.OutOfMemoryError("out of memory")


def digest(path: str) -> str:
    return hashlib.sha256((Path(path) / "model.safetensors").read_bytes()).hexdigest()


async def trained_with_little_memory(
    trainer: Trainer, manifest: bytes, spec: jobs.JobSpec, tmp_path: Path, nats_url: str
) -> tuple[Any, Any]:
    """The result of the trainer, and of another that is told to cut as small from the start."""
    await trainer.configure(spec)
    result = await trainer.train(manifest)
    other, channel = await start(nats_url, tmp_path / "other")
    try:
        spec.algorithm.policy_gradient.batching.micro_batch_tokens = int(result.metrics["micro_batch_tokens"])
        await other.configure(spec)
        return result, await other.train(manifest)
    finally:
        await channel.close()
        await other.server.close(0.1)


@pytest.mark.parametrize(
    ("in_backward", "spared", "tokens", "room"),
    [(False, 0, 16_384, 700), (True, 0, 16_384, 700), (True, 1, 700, 600)],
    ids=["forward", "back", "back, half of the gradient is there"],
)
async def test_out_of_memory_halves_the_micro_batch_says_so_and_changes_no_gradient(
    trainer: Trainer,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    tmp_path: Path,
    nats_url: str,
    monkeypatch: pytest.MonkeyPatch,
    in_backward: bool,
    spared: int,
    tokens: int,
    room: int,
) -> None:
    spec = grpo_spec(model_path)
    spec.algorithm.policy_gradient.batching.micro_batch_tokens = tokens
    manifest = await stream.manifest(0, long_answers(sampler))
    tried = limit_memory(monkeypatch, room, in_backward=in_backward, spared=spared)
    result, expected = await trained_with_little_memory(trainer, manifest, spec, tmp_path, nats_url)
    assert max(tried) > room >= result.metrics["micro_batch_tokens"]
    assert result.metrics["out_of_memory"] == 1
    assert [notice.reason for notice in result.notices] == ["OutOfMemory"]
    assert expected.metrics["out_of_memory"] == 0
    for name in ("loss", "grad_norm", "entropy", "tokens_trained"):
        assert result.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-6)
    assert digest(result.weights.path) == digest(expected.weights.path)


async def test_a_sequence_that_does_not_fit_alone_is_computed_again_in_the_pass_back(
    trainer: Trainer,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    tmp_path: Path,
    nats_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest = await stream.manifest(0, long_answers(sampler))
    limit_memory(monkeypatch, 200, in_backward=True)
    result, expected = await trained_with_little_memory(trainer, manifest, grpo_spec(model_path), tmp_path, nats_url)
    assert digest(result.weights.path) == digest(expected.weights.path)
    assert "once more" in result.notices[-1].message


async def test_a_sequence_that_does_not_fit_alone_names_the_limits_to_lower(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = await stream.manifest(0, long_answers(sampler))
    await trainer.configure(grpo_spec(model_path))
    monkeypatch.setattr(Transformer, "run", _never_fits)
    error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    for words in ("alone does not fit into the memory of cpu", "limits.maxResponseTokens"):
        assert words in (error.details() or "")
