# SPDX-License-Identifier: Apache-2.0
"""What would be trained to be wrong stops the step before the optimizer, or is said; the cause is named."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from safetensors.torch import load_file, save_file
from trainer_client import Trainer, probability, refused
from trainer_kit import Sampler, Stream, group, grpo_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.settings import parse_settings

SCORE = TransformerPolicy.score


def reason_of(error: grpc.aio.AioRpcError) -> str:
    trailer = dict(error.trailing_metadata() or ())["whetstone-error-bin"]
    return json.loads(trailer)["context"]["reason"]


def far_off(sampler: Sampler) -> list[types.Episode]:
    """The second token of one answer was sampled by other weights than those that it is labelled with."""
    episodes = group(sampler)
    episodes[2].calls[0].logprobs[1] -= 1.5
    return episodes


@pytest.mark.parametrize("value", [-1.5, float("-inf")])
async def test_a_token_of_the_current_version_that_is_far_off_stops_the_job_before_it_is_trained(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trainer.configure(grpo_spec(model_path))
    before = await probability(trainer, 70)
    if value == -1.5:
        manifest = await stream.manifest(0, far_off(sampler))
    else:
        manifest = await stream.manifest(0, group(sampler))
        monkeypatch.setattr(TransformerPolicy, "score", _no_number)
    error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    monkeypatch.undo()
    assert reason_of(error) == "LogprobMismatch"
    words = "step 0: toy/g0/s2 call c0 token 1, labelled version 0" if value == -1.5 else "as recomputed"
    assert words in (error.details() or "")
    assert (await trainer.stub.Status(wire.StatusRequest())).step == 0
    assert await probability(trainer, 70) == before


def _no_number(self: TransformerPolicy, *arguments: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all tokens but the first, so that a value which is no number is beside one that is right."""
    logprobs_M, entropies_M = SCORE(self, *arguments, **options)
    return torch.cat([logprobs_M[:1], logprobs_M[1:] * torch.nan]), entropies_M


async def test_a_mismatch_that_the_job_only_wants_to_know_of_is_trained_and_said(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path, on_mismatch=jobs.MISMATCH_POLICY_WARN))
    result = await trainer.train(await stream.manifest(0, far_off(sampler)))
    assert result.metrics["logprob_diff/tokens_over_bound"] == 1
    assert [notice.reason for notice in result.notices] == ["LogprobMismatch"]
    assert result.rows == 4


async def test_the_bound_is_the_jobs(trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path) -> None:
    await trainer.configure(grpo_spec(model_path, mismatch_bound=2.0))
    assert list((await trainer.train(await stream.manifest(0, far_off(sampler)))).notices) == []


@pytest.mark.parametrize("loop", [{"mismatch_bound": 0.0}, {"mismatch_bound": float("inf")}, {"on_mismatch": 9}])
def test_a_bound_that_is_none_is_refused(model_path: Path, loop: dict[str, float]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(grpo_spec(model_path, **loop))
    assert "loop." in str(caught.value)


async def test_a_model_folder_with_weights_that_are_not_finite_is_refused_by_path_and_tensor(
    trainer: Trainer, model_path: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model_path, broken)
    tensors = load_file(broken / "model.safetensors")
    tensors["model.norm.weight"][3] = float("nan")
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    error = await refused(asyncio.ensure_future(trainer.configure(grpo_spec(broken))))
    assert reason_of(error) == "NonFiniteWeights"
    assert str(broken) in (error.details() or "")
    assert "model.norm.weight" in (error.details() or "")


async def test_weights_that_a_step_made_useless_are_not_published(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trainer.configure(grpo_spec(model_path))
    before = await probability(trainer, 70)

    def overflows(optimizer: torch.optim.AdamW) -> None:
        with torch.no_grad():
            optimizer.param_groups[0]["params"][-1][1] = float("inf")

    manifest = await stream.manifest(0, group(sampler))
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", overflows)
        error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    assert reason_of(error) == "NonFiniteWeights"
    assert "step 0: after an update with learning rate 0.003" in (error.details() or "")
    assert not (trainer.run_path / "weights" / "v1").exists()
    assert await probability(trainer, 70) == before
