# SPDX-License-Identifier: Apache-2.0
"""Settings: defaults as the contract says, bad values named by their path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trainer_kit import grpo_spec, sft_spec
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimates import estimate_advantages
from whetstone_trainer.algorithms.estimator import member
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.batch.ingest import parse_manifest
from whetstone_trainer.contract.errors import ContractError, SettingsError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings, Sharding, parse_settings


def test_defaults_are_those_of_the_contract() -> None:
    spec = jobs.JobSpec(name="toy", model=jobs.ModelSource(path="m"))
    spec.algorithm.policy_gradient.group_size, spec.loop.steps = 8, 3
    settings = parse_settings(spec)
    assert settings.optimizer == jobs.Optimizer(
        learning_rate=1e-5, beta1=0.9, beta2=0.95, weight_decay=0, gradient_clip=1, warmup_steps=0, final_rate_share=1
    )
    assert settings.batching == jobs.Batching(
        mini_batches=1, epochs=1, micro_batch_tokens=16384, whole_groups=False, recompute_activations=False
    )
    assert (settings.max_policy_lag, settings.checkpoint_every, settings.checkpoints_kept) == (0, 1, 2)
    assert (settings.mismatch_bound, settings.stop_on_mismatch) == (1.0, True)
    assert settings.sharding == Sharding(sequence_parallel=1, offload=False)
    algorithm, grpo = settings.algorithm, settings.algorithm.options
    assert (grpo.normalize_by_std, grpo.clip_low, grpo.clip_high, grpo.clip_dual) == (True, 0.2, 0.2, 3.0)
    assert (algorithm.aggregation, algorithm.min_group, grpo.correction.level) == (
        "token-mean",
        2,
        jobs.CORRECTION_LEVEL_TOKEN,
    )


@pytest.mark.parametrize(("setting", "value"), [("sequence_parallel", 2), ("offload", True)])
def test_the_backend_local_refuses_what_only_verl_does(setting: str, value: object, model_path: Path) -> None:
    spec = grpo_spec(model_path)
    setattr(spec.sharding, setting, value)
    path = {"sequence_parallel": "sharding.sequenceParallel"}.get(setting, "sharding.offload")
    with pytest.raises(SettingsError, match=rf"^{path}: the backend local does not do it"):
        LocalBackend(torch.device("cpu")).configure(parse_settings(spec), model_path, lambda _: None)


def test_sft_has_no_group_statistics() -> None:
    algorithm = parse_settings(sft_spec(Path("m"))).algorithm
    given = [member("a", 0, 1), member("b", 0, 1), member("b", 5, 1)]
    assert np.concatenate(estimate_advantages(given, algorithm)).tolist() == [1, 1, 1]


def test_roles_have_their_own_estimators_and_losses() -> None:
    spec = grpo_spec(Path("m"))
    spec.loop.group_policy.partial.min_size = 3
    spec.roles.add(name="judge", advantage=types.ADVANTAGE_ESTIMATOR_REINFORCE)
    spec.roles.add(name="solver", advantage=types.ADVANTAGE_ESTIMATOR_RLOO, loss=types.POLICY_LOSS_GSPO)
    spec.roles.add(name="writer", loss=types.POLICY_LOSS_CISPO)
    spec.roles.add(name="critic", frozen=True)
    spec.roles.add(name="oracle", model=types.ExternalModel(base_url="http://127.0.0.1", model="m"))
    assert parse_settings(spec).roles == {
        "judge": RoleSettings("reinforce", 1),
        "solver": RoleSettings("rloo", 3, token_loss="gspo"),
        "writer": RoleSettings("grpo", 3, token_loss="cispo"),
        "critic": RoleSettings("grpo", 3, trained=False),
        "oracle": RoleSettings("grpo", 3, trained=False),
    }


def test_sft_may_freeze_a_role_but_has_no_advantages_and_no_policy_loss() -> None:
    spec = sft_spec(Path("m"))
    spec.roles.add(name="agent", frozen=True)
    assert parse_settings(spec).roles == {"agent": RoleSettings("constant", 1, trained=False)}
    spec.roles[0].advantage = types.ADVANTAGE_ESTIMATOR_GRPO
    with pytest.raises(SettingsError, match=r"roles\[0\].advantage: SFT has no advantages"):
        parse_settings(spec)
    spec.roles[0].advantage, spec.roles[0].loss = types.ADVANTAGE_ESTIMATOR_UNSPECIFIED, types.POLICY_LOSS_GSPO
    with pytest.raises(SettingsError, match=r"roles\[0\].loss: SFT has no policy loss"):
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
        (change("algorithm.policy_gradient.clip_dual", -1), "algorithm.policyGradient.clipDual"),
        (change("algorithm.policy_gradient.clip_low", 1.5), "algorithm.policyGradient.clipLow"),
        (change("algorithm.policy_gradient.loss_scale_factor", 0), "algorithm.policyGradient.lossScaleFactor"),
        (change("algorithm.policy_gradient.batching.mini_batches", 0), "algorithm.policyGradient.batching.miniBatches"),
        (change("algorithm.policy_gradient.optimizer.beta2", 1), "algorithm.policyGradient.optimizer.beta2"),
        (
            change("algorithm.policy_gradient.optimizer.learning_rate", float("inf")),
            "algorithm.policyGradient.optimizer.learningRate",
        ),
        (
            change("algorithm.policy_gradient.optimizer.learning_rate", 1e30),
            "algorithm.policyGradient.optimizer.learningRate",
        ),
        (
            change("algorithm.policy_gradient.optimizer.gradient_clip", float("nan")),
            "algorithm.policyGradient.optimizer.gradientClip",
        ),
        (change("algorithm.policy_gradient.correction.cap", float("inf")), "algorithm.policyGradient.correction.cap"),
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


GRPO = AlgorithmSettings(
    "policy_gradient", "grpo", "clipped", min_group=2, options=with_defaults(jobs.PolicyGradient())
)
REWARDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-8, 8)), min_size=1, max_size=20)


@settings(deadline=None)
@given(REWARDS, st.integers(-5, 5), st.randoms())
def test_grpo_ignores_order_and_a_shift_of_a_group(members: list[tuple[str, int]], shift: int, random) -> None:
    given = [member(group, float(reward), 1) for group, reward in members]
    advantages = np.concatenate(estimate_advantages(given, GRPO))
    shifted = [member(group, float(reward) + shift, 1) for group, reward in members]
    np.testing.assert_allclose(np.concatenate(estimate_advantages(shifted, GRPO)), advantages, atol=1e-9)
    order = list(range(len(members)))
    random.shuffle(order)
    permuted = np.concatenate(estimate_advantages([given[i] for i in order], GRPO))
    np.testing.assert_allclose(permuted, advantages[order], atol=1e-9)
    for group in "abc":
        own = advantages[[i for i, (name, _) in enumerate(members) if name == group]]
        assert abs(own.sum()) < 1e-9
        assert len(own) != 1 or own[0] == 0


def test_remax_without_a_baseline_is_refused() -> None:
    remax = replace(GRPO, advantage="remax", min_group=1)
    with pytest.raises(ContractError, match="lists no baseline"):
        estimate_advantages([member("a", 1.0, 2)], remax)
    (found,) = estimate_advantages([member("a", 1.0, 2, baseline=0.25)], remax)
    assert found.tolist() == [0.75, 0.75]


def test_a_baseline_that_is_trained_too_is_refused() -> None:
    listed = {"episode_id": "j/b0/s0", "group": "g0"}
    manifest = events.BatchManifest(entries=[listed], baselines=[listed])
    with pytest.raises(ContractError, match="listed twice"):
        parse_manifest(manifest.SerializeToString())
