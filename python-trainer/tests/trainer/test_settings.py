# SPDX-License-Identifier: Apache-2.0
"""Settings: defaults as the contract says, bad values named by their path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainer_kit import grpo_spec, sft_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.__main__ import parse_arguments
from whetstone_trainer.algorithms.estimates import estimate_advantages
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings, parse_settings


def test_defaults_are_those_of_the_contract() -> None:
    spec = jobs.JobSpec(name="toy", model=jobs.ModelSource(path="m"))
    spec.algorithm.grpo.group_size, spec.loop.steps = 8, 3
    settings = parse_settings(spec)
    assert settings.optimizer == jobs.Optimizer(
        learning_rate=1e-5, beta1=0.9, beta2=0.95, weight_decay=0, gradient_clip=1, warmup_steps=0, final_rate_share=1
    )
    assert settings.batching == jobs.Batching(mini_batches=1, epochs=1, micro_batch_tokens=16384)
    assert (settings.max_policy_lag, settings.checkpoint_every, settings.checkpoints_kept) == (0, 1, 2)
    assert (settings.mismatch_bound, settings.stop_on_mismatch) == (1.0, True)
    algorithm, grpo = settings.algorithm, settings.algorithm.options
    assert (grpo.normalize_by_std, grpo.clip_low, grpo.clip_high, grpo.clip_dual) == (True, 0.2, 0.2, 0.0)
    assert (algorithm.aggregation, algorithm.min_group, grpo.importance_cap) == ("token-mean", 2, 2.0)


def test_sft_has_no_group_statistics() -> None:
    algorithm = parse_settings(sft_spec(Path("m"))).algorithm
    assert estimate_advantages([0, 0, 5], ["a", "b", "b"], algorithm).tolist() == [1, 1, 1]


def test_roles_have_their_own_estimators() -> None:
    spec = grpo_spec(Path("m"))
    spec.loop.group_policy.partial.min_size = 3
    spec.roles.add(name="judge", advantage=types.ADVANTAGE_ESTIMATOR_REINFORCE)
    spec.roles.add(name="solver", advantage=types.ADVANTAGE_ESTIMATOR_RLOO)
    spec.roles.add(name="critic", frozen=True)
    spec.roles.add(name="oracle", model=types.ExternalModel(base_url="http://127.0.0.1", model="m"))
    assert parse_settings(spec).roles == {
        "judge": RoleSettings("reinforce", 1),
        "solver": RoleSettings("rloo", 3),
        "critic": RoleSettings("grpo", 3, trained=False),
        "oracle": RoleSettings("grpo", 3, trained=False),
    }


def test_sft_may_freeze_a_role_but_has_no_advantages() -> None:
    spec = sft_spec(Path("m"))
    spec.roles.add(name="agent", frozen=True)
    assert parse_settings(spec).roles == {"agent": RoleSettings("constant", 1, trained=False)}
    spec.roles[0].advantage = types.ADVANTAGE_ESTIMATOR_GRPO
    with pytest.raises(SettingsError, match=r"roles\[0\].advantage: SFT has no advantages"):
        parse_settings(spec)


def change(path: str, value: float) -> Callable[[jobs.JobSpec], None]:
    def apply(spec: jobs.JobSpec) -> None:
        *outer, name = path.split(".")
        part = spec
        for field in outer:
            part = getattr(part, field)
        setattr(part, name, value)

    return apply


@pytest.mark.parametrize(
    ("damage", "path"),
    [
        (lambda spec: spec.ClearField("algorithm"), "algorithm"),
        (lambda spec: spec.ClearField("model"), "model"),
        (change("algorithm.grpo.clip_dual", -1), "algorithm.grpo.clipDual"),
        (change("algorithm.grpo.clip_low", 1.5), "algorithm.grpo.clipLow"),
        (change("algorithm.grpo.loss_scale_factor", 0), "algorithm.grpo.lossScaleFactor"),
        (change("algorithm.grpo.batching.mini_batches", 0), "algorithm.grpo.batching.miniBatches"),
        (change("algorithm.grpo.optimizer.beta2", 1), "algorithm.grpo.optimizer.beta2"),
        (change("algorithm.grpo.optimizer.learning_rate", float("inf")), "algorithm.grpo.optimizer.learningRate"),
        (change("algorithm.grpo.optimizer.learning_rate", 1e30), "algorithm.grpo.optimizer.learningRate"),
        (change("algorithm.grpo.optimizer.gradient_clip", float("nan")), "algorithm.grpo.optimizer.gradientClip"),
        (change("algorithm.grpo.importance_cap", float("inf")), "algorithm.grpo.importanceCap"),
        (lambda spec: spec.roles.add(), "roles[0].name"),
        (lambda spec: spec.roles.extend([types.Role(name="a"), types.Role(name="a")]), "roles[1].name"),
        (lambda spec: spec.roles.append(types.Role(name="a", advantage=99)), "roles[0].advantage"),  # type: ignore
    ],
)
def test_bad_values_are_named(damage: Callable[[jobs.JobSpec], None], path: str) -> None:
    spec = grpo_spec(Path("m"))
    damage(spec)
    with pytest.raises(SettingsError) as caught:
        parse_settings(spec)
    assert caught.value.violations[0]["path"] == path


def test_bfloat16_is_refused_until_there_are_float32_weights_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--dtype", "bfloat16"])
    assert "bfloat16" in capsys.readouterr().err
    assert parse_arguments(["--dtype", "float32"]).dtype == "float32"


GRPO = AlgorithmSettings("grpo", "grpo", "clipped", min_group=2, options=with_defaults(jobs.Grpo()))
REWARDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-8, 8)), min_size=1, max_size=20)


@given(REWARDS, st.integers(-5, 5), st.randoms())
def test_grpo_ignores_order_and_a_shift_of_a_group(members: list[tuple[str, int]], shift: int, random) -> None:
    groups, rewards = [group for group, _ in members], [float(reward) for _, reward in members]
    advantages = estimate_advantages(rewards, groups, GRPO)
    shifted = [reward + shift * (group == "a") for group, reward in zip(groups, rewards, strict=True)]
    np.testing.assert_allclose(estimate_advantages(shifted, groups, GRPO), advantages, atol=1e-9)
    order = random.sample(range(len(members)), len(members))
    permuted = estimate_advantages([rewards[i] for i in order], [groups[i] for i in order], GRPO)
    np.testing.assert_allclose(permuted, advantages[order], atol=1e-9)
    for group in set(groups):
        own = advantages[[i for i, name in enumerate(groups) if name == group]]
        assert abs(own.sum()) < 1e-9
        assert len(own) >= 2 or own[0] == 0
