# SPDX-License-Identifier: Apache-2.0
"""PPO's critic: its gradient, its files, what it teaches the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from safetensors.torch import load_file
from test_gradients import GRPO, make_rows
from test_hugging_face import random_model
from test_reference import request
from trainer_kit import PROMPT, UID, Sampler, Turn, done, group, ppo_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_models.init import init_model
from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.algorithms.values import valued, with_values
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.critic import LocalCritic
from whetstone_trainer.backends.local.critic_learner import accumulate_value_loss
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.micro_batches import row_weights
from whetstone_trainer.backends.local.policy import TransformerPolicy, WithBody
from whetstone_trainer.backends.local.update import Tally
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AGGREGATIONS, RoleSettings, parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.weights.disk_space import Say, patiently_write
from whetstone_trainer.weights.run_folder import RunFolder

CLIP = 0.5


def valued_rows(count: int) -> list[Row]:
    """Old values lie up to 1 from the present ones, so that the clip of some tokens bites."""
    rng, rows = np.random.default_rng(3), make_rows(count)
    drawn = [rng.normal(size=(2, len(row.positions))).astype(np.float32) for row in rows]
    return [replace(row, values=own[0], returns=own[1]) for row, own in zip(rows, drawn, strict=True)]


def critic_of(policy: WithBody) -> LocalCritic:
    """With a head that is not 0: from one of 0 no gradient reaches the model."""
    critic = LocalCritic(policy, with_defaults(jobs.Critic()))
    torch.nn.init.normal_(critic.head.weight, std=0.5, generator=torch.Generator().manual_seed(1))
    return critic


def gradient(
    critic: LocalCritic, parts: Sequence[Sequence[Row]], aggregation: str, budget: int = 10**6
) -> torch.Tensor:
    """Of the mini-batch that `parts` make up."""
    rows = [row for part in parts for row in part]
    weights = row_weights(rows, replace(GRPO, aggregation=aggregation), 12.0)
    critic.module.zero_grad(set_to_none=True)
    for part in parts:
        for micro in critic.cut(part, budget):
            accumulate_value_loss(critic, micro, weights, CLIP, Tally())
    return flat(critic)


def flat(critic: LocalCritic) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in critic.module.parameters() if one.grad is not None])


def naive_gradient(critic: LocalCritic, model: torch.nn.Module, rows: Sequence[Row], aggregation: str) -> torch.Tensor:
    """A loop over rows, each alone, each token's loss by the plain formula."""
    head, total = critic.head, torch.zeros(())
    tokens, share = sum(len(row.positions) for row in rows), sum(row.share for row in rows)
    for row in rows:
        hidden_TH = model.hidden(torch.from_numpy(row.token_ids)[None])[0]  # type: ignore[operator]
        values_K = (hidden_TH[row.positions - 1] @ head.weight[0]) + head.bias[0]
        returns_K, old_K = torch.from_numpy(row.returns), torch.from_numpy(row.values)
        near_K = old_K + (values_K - old_K).clamp(-CLIP, CLIP)
        loss = 0.5 * torch.maximum((values_K - returns_K) ** 2, (near_K - returns_K) ** 2).sum()
        per_row = {
            "token-mean": 1 / tokens,
            "token-sum": 1.0,
            "seq-mean-token-sum": 1 / share,
            "seq-mean-token-sum-norm": 1 / (share * 12),
            "seq-mean-token-mean": 1 / (share * (len(row.positions) / row.share)),
        }
        total = total + loss * per_row[aggregation]
    critic.module.zero_grad(set_to_none=True)
    total.backward()
    return flat(critic)


@pytest.mark.parametrize("aggregation", sorted(set(AGGREGATIONS.values())))
def test_the_gradient_is_that_of_rows_alone_however_they_are_cut(model_path: Path, aggregation: str) -> None:
    """I10."""
    rows, module = valued_rows(21), load_model(model_path)
    critic = critic_of(TransformerPolicy(module))
    expected = naive_gradient(critic, module, rows, aggregation)
    scale = max(1.0, float(expected.abs().max()))
    assert expected.abs().max() > 1e-3
    parts = [[rows[index] for index in part] for part in np.array_split(np.arange(21), 4)]
    for cut, budget in (([rows], 10**6), ([rows], 20), (parts, 10**6)):
        assert (gradient(critic, cut, aggregation, budget) - expected).abs().max() < 1e-6 * scale


def test_a_model_of_transformers_has_the_same_values(model_path: Path) -> None:
    rows = valued_rows(9)
    ours = critic_of(TransformerPolicy(load_model(model_path)))
    theirs = critic_of(HuggingFacePolicy(load_causal_lm(model_path)))
    mine, other = gradient(ours, [rows], "token-mean"), gradient(theirs, [rows], "token-mean")
    assert mine.shape == other.shape
    assert (mine.norm() - other.norm()).abs() < 1e-5 * mine.norm()


def start(spec: jobs.JobSpec, model: Path, run: Path) -> JobRun:
    return JobRun(parse_settings(spec), RunFolder(run, model), UID, LocalBackend(DEVICE), untold)


def sampled(run: JobRun, count: int, seed: int) -> list[types.Episode]:
    """Answers of two tokens, drawn from the present policy; an even first token is worth 1."""
    sampler = Sampler(Path(run.weights().path))
    with torch.no_grad():
        odds = sampler.model(torch.tensor([PROMPT]))[0, -1].softmax(-1)
    firsts = torch.multinomial(odds, count, replacement=True, generator=torch.Generator().manual_seed(seed)).tolist()
    return [
        sampler.episode(run.step, index, [Turn(PROMPT, [token, 260], run.step)], float(token % 2 == 0))
        for index, token in enumerate(firsts)
    ]


def test_ppo_learns_and_so_does_its_critic(model_path: Path, tmp_path: Path) -> None:
    spec = ppo_spec(model_path, steps=40)
    options = spec.algorithm.policy_gradient
    options.optimizer.learning_rate = options.critic.optimizer.learning_rate = 1e-2
    run, metrics = start(spec, model_path, tmp_path / "run"), []
    for step in range(14):
        metrics.append(dict(done(run, request(step, sampled(run, 32, step))).metrics))
    # A head of zeros expects nothing.
    assert (metrics[0]["values/mean"], metrics[0]["explained_variance"]) == (0, 0)
    rewards = [one["reward/mean"] for one in metrics]
    assert np.mean(rewards[:2]) < 0.7
    assert np.mean(rewards[-3:]) > 0.85
    assert np.mean([one["value_loss"] for one in metrics[-3:]]) < 0.3 * metrics[0]["value_loss"]
    assert metrics[-1]["values/mean"] > 0.6
    assert all(one["critic_grad_norm"] > 0 and one["critic_lr"] == 1e-2 for one in metrics)


def test_only_the_critic_learns_while_it_warms_up(model_path: Path, tmp_path: Path) -> None:
    spec = ppo_spec(model_path, max_policy_lag=2)
    spec.algorithm.policy_gradient.critic.warmup_steps = 2
    run, metrics = start(spec, model_path, tmp_path / "run"), []
    for step in range(3):
        metrics.append(dict(done(run, request(step, sampled(run, 8, step))).metrics))
    weights = [load_file(tmp_path / f"run/weights/v{step}/model.safetensors") for step in (1, 2, 3)]
    critics = [load_file(tmp_path / f"run/checkpoints/step-{step}/critic.safetensors") for step in (2, 3)]
    assert [one["optimizer_steps"] for one in metrics] == [0, 0, 4]
    assert same(weights[0], load_file(model_path / "model.safetensors"))
    assert same(weights[0], weights[1])
    assert not same(weights[1], weights[2])
    assert not same(critics[0], critics[1])


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_role_may_have_the_critic_for_itself() -> None:
    rows = [replace(row, trajectory=index) for index, row in enumerate(make_rows(4))]
    trajectories = [Trajectory(index, "g0", role, float(index), True) for index, role in enumerate("abab")]
    roles = {"b": RoleSettings("gae", 1)}
    asked: list[Row] = []

    def values(of: Sequence[Row]) -> list[np.ndarray]:
        asked.extend(of)
        return [np.full(len(row.positions), 0.5, dtype=np.float32) for row in of]

    found = with_values(rows, trajectories, GRPO, roles, values)
    assert asked == [rows[1], rows[3]]
    found = with_advantages(found, trajectories, GRPO, roles)
    assert valued(found) == [found[1], found[3]]
    # At gamma and lambda 1 a return is all that comes: the reward of the last token.
    assert [set(row.returns.tolist()) for row in valued(found)] == [{1.0}, {3.0}]


def test_what_is_published_has_no_critic_and_a_restart_goes_on_with_the_same_one(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    spec = ppo_spec(model_path)
    run = start(spec, model_path, tmp_path / "run")
    for step in range(2):
        done(run, request(step, group(sampler, step)))
    checkpoint = tmp_path / "run/checkpoints/step-2"
    held = {path.name for path in checkpoint.iterdir()}
    assert held == {"optimizer.pt", "critic.safetensors", "critic-optimizer.pt", "state.json"}
    assert not [path for path in (tmp_path / "run/weights/v2").iterdir() if "critic" in path.name]
    third = request(2, group(sampler, 2))
    metrics = done(run, third).metrics
    expected = [metrics["values/mean"], load_file(tmp_path / "run/checkpoints/step-3/critic.safetensors")]
    again = start(spec, model_path, tmp_path / "run")
    again.restore(2)
    metrics = done(again, third).metrics
    assert metrics["values/mean"] == expected[0]
    assert same(load_file(tmp_path / "run/checkpoints/step-3/critic.safetensors"), expected[1])


@pytest.mark.parametrize("name", ["critic.safetensors", "critic-optimizer.pt"])
def test_a_critic_that_is_damaged_takes_its_checkpoint_out_of_use(
    model_path: Path, tmp_path: Path, sampler: Sampler, name: str
) -> None:
    run = start(ppo_spec(model_path), model_path, tmp_path / "run")
    for step in range(2):
        done(run, request(step, group(sampler, step)))
    path = tmp_path / f"run/checkpoints/step-2/{name}"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TrainerError, match=rf"{name}: content differs") as caught:
        run.restore(2)
    assert caught.value.code == "DATA_LOSS"
    again = start(ppo_spec(model_path), model_path, tmp_path / "run")
    assert (again.step, again.notices[-1].reason) == (1, "CheckpointDamaged")


def test_disk_space_is_asked_for_the_critic_too(
    model_path: Path, tmp_path: Path, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, int] = {}

    def noted(write: Callable[[], object], path: Path, needed_bytes: int, say: Say) -> object:
        asked[path.parent.name] = needed_bytes
        return patiently_write(write, path, needed_bytes, say)

    monkeypatch.setattr("whetstone_trainer.service.commit.patiently_write", noted)
    done(start(ppo_spec(model_path), model_path, tmp_path / "run"), request(0, group(sampler)))
    held = sum(path.stat().st_size for path in (tmp_path / "run/checkpoints/step-1").iterdir())
    # Headers of the files, and state.json, are not estimated.
    assert 0.8 * held < asked["checkpoints"] <= held


def test_a_critic_starts_from_a_folder_of_its_own(model_path: Path, tmp_path: Path, sampler: Sampler) -> None:
    init_model(tmp_path / "other", seed=9, hidden_size=48, num_hidden_layers=1, num_attention_heads=4)
    spec = ppo_spec(model_path)
    spec.algorithm.policy_gradient.critic.model = str(tmp_path / "other")
    run = start(spec, model_path, tmp_path / "run")
    done(run, request(0, group(sampler)))
    saved = load_file(tmp_path / "run/checkpoints/step-1/critic.safetensors")
    assert saved["value_head.weight"].shape == (1, 48)


def test_a_critic_that_does_not_know_the_tokens_is_refused_by_its_field(model_path: Path, tmp_path: Path) -> None:
    spec = ppo_spec(model_path)
    spec.algorithm.policy_gradient.critic.model = str(random_model("Llama", tmp_path / "other"))
    with pytest.raises(SettingsError, match=r"^algorithm\.policyGradient\.critic\.model: .* has 300 token ids"):
        start(spec, model_path, tmp_path / "run")
