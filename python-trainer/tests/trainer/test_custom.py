# SPDX-License-Identifier: Apache-2.0
"""A job's own estimator and token loss: trained as ours are, refused in time, and alone in what it breaks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from forked_trainers import forker
from trainer_client import Trainer, refused, start
from trainer_kit import Sampler, Stream, committed, configure_request, group, grpo_spec, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms import advantages, losses
from whetstone_trainer.algorithms.custom import MAX_BYTES, ModuleRules
from whetstone_trainer.service.servicer import ERROR_TRAILER

FIELD = "algorithm.policyGradient.module"
ROOT = Path(__file__).parents[3]


def copied(package: Path, name: str, ours: str, theirs: str) -> str:
    """A file of ours, as a user who starts from it has it."""
    text = (package / f"{name}.py").read_text()
    assert f"\n{ours} = " in text
    return text.replace(f"\n{ours} = ", f"\n{theirs} = ")


ESTIMATOR = copied(Path(advantages.__path__[0]), "rloo", "RLOO", "ESTIMATOR")
TOKEN_LOSS = copied(Path(losses.__path__[0]), "clipped", "CLIPPED", "TOKEN_LOSS")


def in_losses(line: str, text: str = TOKEN_LOSS) -> str:
    """The token loss with something else in its first line, but not in the trial, whose tokens are four."""
    before = "    ratio_N, advantages_N = "
    assert before in text
    return text.replace(before, f"    if len(given.logprobs_N) != 4:\n        {line}\n{before}")


def spec_of(model_path: Path, code: str = "", **loop: int) -> jobs.JobSpec:
    """RLOO with the clipped loss: ours without code, else the code's."""
    spec = grpo_spec(model_path, batch_groups=2, **loop)
    options = spec.algorithm.policy_gradient
    options.batching.MergeFrom(jobs.Batching(mini_batches=2, epochs=2))
    options.advantage = types.ADVANTAGE_ESTIMATOR_RLOO
    if code:
        options.advantage, options.loss = types.ADVANTAGE_ESTIMATOR_CUSTOM, types.POLICY_LOSS_CUSTOM
        options.module, options.module_digest = code, hashlib.sha256(code.encode()).hexdigest()
    return spec


@pytest.fixture
async def allowing(nats_url: str, stream: Stream, tmp_path: Path) -> AsyncIterator[Trainer]:
    trainer, channel = await start(nats_url, tmp_path / "run", ModuleRules(is_allowed=True))
    yield trainer
    await channel.close()
    await trainer.server.close(grace_s=0.1)


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The trainer's word for what ended the job."""
    trailers: dict[str, Any] = dict(error.trailing_metadata() or ())
    return json.loads(trailers[ERROR_TRAILER])["context"]["reason"]


def batch(sampler: Sampler, version: int = 0) -> list[types.Episode]:
    return [*group(sampler, 0, version), *group(sampler, 1, version)]


def weights(result: wire.TrainResult) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(result.weights.path).glob("*.safetensors")))


async def test_a_copy_of_ours_trains_bit_for_bit_as_ours(
    trainer: Trainer, allowing: Trainer, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path
) -> None:
    manifest = await stream.manifest(0, batch(sampler))
    trainer.run_path = tmp_path / "ours"
    await trainer.configure(spec_of(model_path))
    await allowing.configure(spec_of(model_path, ESTIMATOR + TOKEN_LOSS))
    ours, theirs = await trainer.train(manifest), await allowing.train(manifest)
    assert weights(ours) == weights(theirs)
    assert ours.metrics["loss"] == theirs.metrics["loss"]
    assert ours.metrics["grad_norm"] > 0


async def test_a_later_configure_keeps_the_code(
    allowing: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    for epoch in (1, 2):
        await allowing.configure(spec_of(model_path, ESTIMATOR + TOKEN_LOSS), epoch=epoch)
    result = await allowing.train(await stream.manifest(0, batch(sampler)), epoch=2)
    assert (result.step, result.metrics["grad_norm"] > 0) == (0, True)
    assert (allowing.run_path / "algorithm.py").read_text() == ESTIMATOR + TOKEN_LOSS


REFUSED = {
    "syntax": ("x = 1\ndef advantages(:\n", "line 2: SyntaxError"),
    "raises": ("x = 1\nraise RuntimeError('no')\n", "line 2, in <module>: RuntimeError: no"),
    "ends": (ESTIMATOR + TOKEN_LOSS + "\nimport sys\nsys.exit(3)\n", "in <module>: SystemExit: 3"),
    "no estimator": (TOKEN_LOSS, "defines no ESTIMATOR"),
    "no loss": (ESTIMATOR, "defines no TOKEN_LOSS"),
    "kind": (
        TOKEN_LOSS + "\nESTIMATOR = 'rloo'\n",
        "ESTIMATOR must be a whetstone_trainer.algorithms.estimator.Estimator",
    ),
    "count": (
        ESTIMATOR.replace("return rewards_G if", "return rewards_G[:1] if").replace("count == 1", "count == 3")
        + TOKEN_LOSS,
        "ESTIMATOR.advantages gave 1 values for the 3 members",
    ),
    "advantages not finite": (
        ESTIMATOR.replace("rewards_G, count = ", "rewards_G, count = float('nan') * ") + TOKEN_LOSS,
        "ESTIMATOR.advantages gave a number that is not finite",
    ),
    "too large": ("#" * (MAX_BYTES + 1), f"has {MAX_BYTES + 1} bytes"),
    "loss's type": (ESTIMATOR + TOKEN_LOSS.replace("return TokenLossOutput(", "return ("), "gave a tuple"),
    "loss's shape": (
        ESTIMATOR + TOKEN_LOSS.replace("TokenLossOutput(losses_N,", "TokenLossOutput(losses_N.mean(),"),
        "losses_N must be a tensor of torch.float32 and shape (4,), not torch.float32 ()",
    ),
    "loss not finite": (
        ESTIMATOR + TOKEN_LOSS.replace("TokenLossOutput(losses_N,", "TokenLossOutput(losses_N / 0,"),
        "losses_N has a number that is not finite",
    ),
    "no gradient": (
        ESTIMATOR + TOKEN_LOSS.replace("TokenLossOutput(losses_N,", "TokenLossOutput(losses_N.detach(),"),
        "losses_N has no gradient",
    ),
    "raises in the trial": (
        ESTIMATOR.replace("    rewards_G, count = ", "    1 / 0\n    rewards_G, count = ") + TOKEN_LOSS,
        "was tried on a few tokens: line 15, in advantages: ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_module_is_refused_by_path(allowing: Trainer, model_path: Path, name: str) -> None:
    code, reason = REFUSED[name]
    error = await refused(asyncio.ensure_future(allowing.configure(spec_of(model_path, code))))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert (error.details() or "").startswith(FIELD)
    assert reason in (error.details() or "")
    assert (await allowing.configure(spec_of(model_path), uid="uid-1")).step == 0, "the trainer takes other jobs"


async def test_another_code_than_the_digests_is_refused(allowing: Trainer, model_path: Path) -> None:
    spec = spec_of(model_path, ESTIMATOR + TOKEN_LOSS)
    spec.algorithm.policy_gradient.module += "\n"
    error = await refused(asyncio.ensure_future(allowing.configure(spec)))
    assert f"{FIELD}Digest: the SHA-256 of the code is " in (error.details() or "")


async def test_a_trainer_runs_no_code_of_jobs_unless_it_is_told_to(trainer: Trainer, model_path: Path) -> None:
    error = await refused(asyncio.ensure_future(trainer.configure(spec_of(model_path, ESTIMATOR + TOKEN_LOSS))))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"{FIELD}: this trainer runs no code of jobs" in (error.details() or "")
    assert not (trainer.run_path / "algorithm.py").exists()


async def test_what_needs_several_members_is_refused_a_single_one(allowing: Trainer, model_path: Path) -> None:
    spec = spec_of(model_path, ESTIMATOR + TOKEN_LOSS)
    spec.algorithm.policy_gradient.group_size = 1
    error = await refused(asyncio.ensure_future(allowing.configure(spec)))
    assert "algorithm.policyGradient.groupSize: must be at least 2" in (error.details() or "")


BACKWARD = """
import torch

class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_N):
        return x_N.clone()

    @staticmethod
    def backward(ctx, grad_N):
        if len(grad_N) != 4:
            raise ValueError("in backward")
        return grad_N
"""
FAILS = {
    "forward": (in_losses("raise ValueError('in forward')"), "in losses: ValueError: in forward"),
    "backward": (
        TOKEN_LOSS.replace("TokenLossOutput(losses_N,", "TokenLossOutput(Bad.apply(losses_N),") + BACKWARD,
        "in backward: ValueError: in backward",
    ),
}


@pytest.mark.parametrize("where", FAILS)
async def test_what_raises_in_a_step_fails_that_job_and_no_other(
    allowing: Trainer, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path, where: str
) -> None:
    code, fault = FAILS[where]
    await allowing.configure(spec_of(model_path, ESTIMATOR + code))
    manifest = await stream.manifest(0, batch(sampler))
    error = await refused(asyncio.ensure_future(allowing.train(manifest)))
    assert error.code() == grpc.StatusCode.INTERNAL
    assert re.search(rf"{re.escape(FIELD)}: line \d+, {fault}", error.details() or "")
    assert reason_of(error) == "AlgorithmFailed"
    allowing.run_path = tmp_path / "other"
    await allowing.configure(spec_of(model_path), uid="uid-2")
    assert (await allowing.train(manifest)).step == 0


async def test_what_hangs_ends_the_trainer_once_and_then_its_job(
    nats_url: str, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHETSTONE_ALGORITHM_MODULES", "1")
    monkeypatch.setenv("WHETSTONE_ALGORITHM_HANG_MS", "2000")
    code = ESTIMATOR + in_losses("while True: pass")
    request = configure_request(spec_of(model_path, code), tmp_path / "run")
    manifest = await stream.manifest(0, batch(sampler))
    with forker(nats_url, tmp_path / "trainer.log") as trainers:
        async with trainers.trainer() as (stub, _):
            await until_configured(stub, request)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                async for _ in stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest)):
                    pass
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        async with trainers.trainer() as (stub, _):
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await until_configured(stub, request)
            assert re.search(r"did not return within 2 s .* at line \d+, in losses", failed.value.details() or "")
            assert reason_of(failed.value) == "AlgorithmHung"
            other = configure_request(spec_of(model_path), tmp_path / "other", uid="uid-2")
            assert (await until_configured(stub, other)).step == 0


async def test_killed_between_two_steps_it_goes_on_as_ours_would(
    trainer: Trainer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WHETSTONE_ALGORITHM_MODULES", "1")
    trainer.run_path = tmp_path / "ours"
    await trainer.configure(spec_of(model_path))
    manifests = [await stream.manifest(0, batch(sampler))]
    first = await trainer.train(manifests[0])
    manifests.append(await stream.manifest(1, batch(Sampler(Path(first.weights.path)), 1)))
    ours = await trainer.train(manifests[1])
    request = configure_request(spec_of(model_path, ESTIMATOR + TOKEN_LOSS), tmp_path / "run")
    results = []
    with forker(nats_url, tmp_path / "trainer.log") as trainers:
        for step, manifest in enumerate(manifests):
            async with trainers.trainer() as (stub, forked):
                assert (await until_configured(stub, request)).step == step
                asked = stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest))
                results += [one.result async for one in asked if one.HasField("result")]
                await committed(tmp_path / "run", step + 1)
                await forked.kill()
    assert [weights(one) for one in results] == [weights(first), weights(ours)]


async def test_the_example_of_the_docs_trains(
    allowing: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    page = (ROOT / "docs" / "algorithms.md").read_text().partition("## Your own\n")[2]
    code = page.partition("```python\n")[2].partition("```")[0]
    await allowing.configure(spec_of(model_path, code))
    result = await allowing.train(await stream.manifest(0, batch(sampler)))
    assert result.metrics["grad_norm"] > 0
