# SPDX-License-Identifier: Apache-2.0
"""Demonstrations that are evaluated and not trained, through the service."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from test_preference import pair
from trainer_client import Trainer
from trainer_kit import PROMPT, Sampler, Stream, demonstration, dpo_spec, sft_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types


def held_out(version: int) -> list[types.Episode]:
    """As a validation's: a group a task."""
    found = [demonstration(i, PROMPT, [70 + i, 80, 260]) for i in range(3)]
    for i, episode in enumerate(found):
        episode.group = f"v{version}-heldout-{i}"
        episode.id = f"{episode.job}/{episode.group}/s0"
    return found


async def test_the_loss_is_that_of_the_tokens_and_nothing_is_trained(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(sft_spec(model_path))
    logprobs = [sampler.logprobs(PROMPT, [70 + i, 80, 260])[:2] for i in range(3)]
    manifest = await stream.manifest(0, held_out(0))
    result = await trainer.evaluate(manifest)
    assert result.metrics["loss"] == pytest.approx(-sum(map(sum, logprobs)) / 6, abs=1e-5)
    assert 0 <= result.metrics["mean_token_accuracy"] <= 1
    assert (await trainer.evaluate(manifest)).metrics == result.metrics


async def test_what_is_learned_shows_in_demonstrations_that_are_not_trained(
    trainer: Trainer, stream: Stream, model_path: Path
) -> None:
    """Held-out conversations are of the kind that is trained: their loss falls, and the tokens become the likeliest."""
    await trainer.configure(sft_spec(model_path))
    losses, accuracies = [], []
    for step in range(12):
        result = await trainer.evaluate(await stream.manifest(step, held_out(step)))
        losses.append(result.metrics["loss"])
        accuracies.append(result.metrics["mean_token_accuracy"])
        trained = [demonstration(10 * step + i, PROMPT, [70 + i, 80, 260]) for i in range(3)]
        await trainer.train(await stream.manifest(step, trained))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]
    assert accuracies[-1] > accuracies[0]


async def test_pairs_are_judged_as_they_are_trained(trainer: Trainer, stream: Stream, model_path: Path) -> None:
    await trainer.configure(dpo_spec(model_path))
    batch = [*pair(0, [70, 260], [71, 80, 260]), *pair(1, [70, 260], [72, 260])]
    before = await trainer.evaluate(await stream.manifest(0, batch))
    trained = await trainer.train(await stream.manifest(0, batch))
    for name in ("loss", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected"):
        assert before.metrics[name] == pytest.approx(trained.metrics[name], abs=1e-6)
    after = await trainer.evaluate(await stream.manifest(1, batch))
    assert after.metrics["rewards/accuracies"] == 1
    assert after.metrics["loss"] < before.metrics["loss"]


async def test_a_version_before_the_newest_is_evaluated_as_long_as_its_weights_are_there(
    trainer: Trainer, stream: Stream, model_path: Path
) -> None:
    await trainer.configure(sft_spec(model_path))
    first = await trainer.evaluate(await stream.manifest(0, held_out(0)))
    for step in range(2):
        trained = [demonstration(10 * step + i, PROMPT, [70 + i, 80, 260]) for i in range(3)]
        await trainer.train(await stream.manifest(step, trained))
    again = await trainer.evaluate(await stream.manifest(0, held_out(0)))
    assert again.metrics["loss"] == pytest.approx(first.metrics["loss"], abs=1e-6)
    shutil.rmtree(trainer.run_path / "weights" / "v1")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await trainer.evaluate(await stream.manifest(1, held_out(1)))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("spec_of", [sft_spec, dpo_spec])
async def test_what_cannot_be_evaluated_is_named(
    trainer: Trainer, stream: Stream, model_path: Path, spec_of: Callable[[Path], jobs.JobSpec]
) -> None:
    await trainer.configure(spec_of(model_path))
    huge = pair(0, [10**6], [71])
    result = await trainer.evaluate(await stream.manifest(0, huge[:1]))
    assert [one.episode_id for one in result.dropped] == [huge[0].id]
    assert not result.metrics
