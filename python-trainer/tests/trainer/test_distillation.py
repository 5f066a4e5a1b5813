# SPDX-License-Identifier: Apache-2.0
"""On-policy distillation: a teacher's log-probabilities of the tokens that the policy sampled make the advantages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import SETTINGS, adam, make_rows
from test_reference import start, trained
from test_whole_step import clip_loss, flat, logprobs
from trainer_kit import JOB, Turn, call_of
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model, save_weights
from whetstone_models.hugging_face import load_causal_lm
from whetstone_models.init import init_model
from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.algorithms.reference import with_reference
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings

COEFFICIENT, DISCOUNT, CLIP = 0.5, 0.7, 0.8
KL = jobs.KlPenalty(
    applied_to=jobs.KL_PLACE_ADVANTAGE,
    estimator=jobs.KL_ESTIMATOR_K1,
    coefficient=COEFFICIENT,
    discount=DISCOUNT,
    clip=CLIP,
)
REWARDS = np.array([1.0, 0.0, 0.5, 2.0])


@pytest.fixture(scope="module", name="teacher")
def _teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "teacher"
    init_model(path, seed=9, hidden_size=32, num_hidden_layers=1, num_attention_heads=4)
    return path


def naive_step(model: Path, teacher: Path, rows: list[Row], estimator: str) -> torch.Tensor:
    """What a step of plain gradient descent with rate 1 adds: float64, transformers, trajectory by trajectory."""
    policy, judge = load_causal_lm(model).double(), load_causal_lm(teacher).double()
    tokens = sum(len(row.positions) for row in rows)
    for trajectory, reward in enumerate(REWARDS):
        own = [row for row in rows if row.trajectory == trajectory]
        new = [logprobs(policy, row) for row in own]
        with torch.no_grad():
            said = torch.cat([logprobs(judge, row) for row in own])
        old = torch.from_numpy(np.concatenate([row.old_logprobs for row in own])).double()
        divergences = (old - said).clamp(-CLIP, CLIP)
        later = [sum(DISCOUNT ** (k - t) * divergences[k] for k in range(t, len(old))) for t in range(len(old))]
        of_reward = 0.0 if estimator == "none" else reward - REWARDS.mean()
        a = of_reward - COEFFICIENT * torch.stack([torch.as_tensor(one) for one in later])
        ratio = (torch.cat(new) - old).exp()
        losses = torch.where(a < 0, torch.minimum(clip_loss(ratio, a), -3 * a), clip_loss(ratio, a))
        (losses.sum() / tokens).backward()
    return flat({name: -one.grad for name, one in policy.named_parameters() if one.grad is not None})


@pytest.mark.parametrize("estimator", ["none", "grpo"])
def test_a_step_is_the_naive_one(model_path: Path, teacher: Path, estimator: str) -> None:
    """Trajectories of two rows each, so that the discount reaches over the border of a row."""
    policy, judge = TransformerPolicy(load_model(model_path)), TransformerPolicy(load_model(teacher))
    rng = np.random.default_rng(3)

    def scored(by: TransformerPolicy, rows: list[Row]) -> list[np.ndarray]:
        with torch.no_grad():
            return [by.score(next(by.cut([row], 10**6)))[0].numpy() for row in rows]

    rows = [replace(row, trajectory=index // 2) for index, row in enumerate(make_rows(2 * len(REWARDS)))]
    rows = [
        replace(row, old_logprobs=(own + rng.normal(0, 0.3, len(own))).astype(np.float32))
        for row, own in zip(rows, scored(policy, rows), strict=True)
    ]
    given = jobs.PolicyGradient(kl=KL, normalize_by_std=False, clip_high=0.28)
    algorithm = AlgorithmSettings("x", estimator, "clipped", options=with_defaults(given))
    trajectories = [Trajectory(index, "g", "agent", reward, True) for index, reward in enumerate(REWARDS.tolist())]
    batch, metrics = with_reference(rows, algorithm.options, {}, lambda of: scored(judge, list(of)))
    batch = with_advantages(batch, trajectories, algorithm, {})
    before = {name: one.detach().double().clone() for name, one in policy.module.named_parameters()}
    settings = replace(SETTINGS, algorithm=algorithm, optimizer=adam(learning_rate=1, gradient_clip=1e9))
    train_rows(policy, torch.optim.SGD(policy.module.parameters()), batch, settings, 0, lambda share: None)
    added = flat({name: one.detach().double() - before[name] for name, one in policy.module.named_parameters()})
    expected = naive_step(model_path, teacher, rows, estimator)
    assert expected.norm() > 1e-3
    assert (added - expected).norm() < 1e-4 * expected.norm()
    assert metrics["kl/reference"] != 0


def sampled(weights: Path, step: int, prompts: list[list[int]], each: int) -> list[types.Episode]:
    """Answers of two tokens to prompts of one length, drawn from the student; rewards are 0."""
    model, draw = load_model(weights), torch.Generator().manual_seed(step)
    ids_BT = torch.tensor([prompt for prompt in prompts for _ in range(each)])
    logprobs_BT = torch.zeros(len(ids_BT), 0)
    for _ in range(2):
        with torch.no_grad():
            table_BV = model(ids_BT)[:, -1].log_softmax(-1)
        drawn_B1 = torch.multinomial(table_BV.exp(), 1, generator=draw)
        ids_BT = torch.cat([ids_BT, drawn_B1], 1)
        logprobs_BT = torch.cat([logprobs_BT, table_BV.gather(1, drawn_B1)], 1)
    episodes = []
    for index, (ids, said) in enumerate(zip(ids_BT.tolist(), logprobs_BT.tolist(), strict=True)):
        call = call_of(Turn(ids[:-2], ids[-2:], step), 0, said)
        group, sample = divmod(index, each)
        names = {"id": f"{JOB}/g{group}/s{sample}", "job": JOB, "group": f"g{group}", "sample": sample}
        episodes.append(types.Episode(**names, purpose=types.PURPOSE_TRAIN, calls=[call]))
    return episodes


def reverse_kl(student: torch.nn.Module, teacher: torch.nn.Module, prompts: list[list[int]]) -> float:
    """Exact, over the whole vocabulary, of the first token after each prompt."""
    found = []
    for prompt in prompts:
        with torch.no_grad():
            p, q = (one(torch.tensor([prompt]))[0, -1].log_softmax(-1) for one in (student, teacher))
        found.append(float((p.exp() * (p - q)).sum()))
    return float(np.mean(found))


def inclined(model: Path, folder: Path, shares: dict[int, float]) -> Path:
    """The model after some steps towards these shares of tokens, whatever the prompt."""
    module, wanted_V = load_model(model), torch.zeros(262)
    wanted_V[list(shares)] = torch.tensor(list(shares.values()))
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            module(torch.tensor(PROMPTS))[:, -1], wanted_V.expand(len(PROMPTS), -1)
        ).backward()
        optimizer.step()
    save_weights(module, folder, 0, model)
    return folder


PROMPTS = [[256, 65 + a, 65 + b, 257] for a in range(4) for b in range(4)]


def test_a_student_comes_nearer_to_its_teacher_on_prompts_it_was_not_trained_on(
    model_path: Path, tmp_path: Path
) -> None:
    """Rewards are all 0: everything is learned from the teacher."""
    student = inclined(model_path, tmp_path / "student", {70: 0.4, 71: 0.3, 72: 0.3})
    teacher = inclined(model_path, tmp_path / "teacher", {70: 0.05, 71: 0.15, 72: 0.8})
    kl = jobs.KlPenalty(
        model=str(teacher), applied_to=jobs.KL_PLACE_ADVANTAGE, estimator=jobs.KL_ESTIMATOR_K1, coefficient=1
    )
    options = {"advantage": types.ADVANTAGE_ESTIMATOR_NONE, "optimizer": jobs.Optimizer(learning_rate=5e-3)}
    run, judge = start(student, tmp_path / "run", kl, **options), load_model(teacher)
    before = reverse_kl(load_model(student), judge, PROMPTS[1::2])
    of_batches = [
        trained(run, sampled(Path(run.weights().path), step, PROMPTS[::2], 8), 1)[0]["kl/reference"]
        for step in range(8)
    ]
    after = reverse_kl(load_model(Path(run.weights().path)), judge, PROMPTS[1::2])
    print(
        f"held-out reverse KL {before:.3f} -> {after:.3f}; of the batches {of_batches[0]:.3f} -> {of_batches[-1]:.3f}"
    )
    assert of_batches[-1] < of_batches[0]
    assert after < 0.5 * before
