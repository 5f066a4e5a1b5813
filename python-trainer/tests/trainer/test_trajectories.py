# SPDX-License-Identifier: Apache-2.0
"""Which call is whose, and what each role learns from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from trainer_client import Trainer
from trainer_kit import PROMPT, Sampler, Stream, Turn, group, grpo_spec
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory, split_episode
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings

GRPO = AlgorithmSettings(
    "policy_gradient", "grpo", "clipped", min_group=2, options=with_defaults(jobs.PolicyGradient())
)


def episode(calls: dict[str, str], trajectories: list[tuple[str, float, str]], **fields: Any) -> types.Episode:
    """`calls`: id → role. `trajectories`: role, reward, ids of the calls that its steps name, separated by blanks."""
    return types.Episode(
        id="toy/g0/s0",
        purpose=fields.pop("purpose", types.PURPOSE_TRAIN),
        calls=[types.ModelCall(id=name, role=role) for name, role in calls.items()],
        trajectories=[
            types.Trajectory(role=role, reward=reward, steps=[types.Step(call_id=name) for name in named.split(" ")])
            for role, reward, named in trajectories
        ],
        **fields,
    )


def members(split: Any) -> list[tuple[str, float]]:
    return [(one.role, one.reward) for one in split.trajectories]


AGENT = {"c0": "agent", "c1": "agent", "c2": "agent"}


def test_a_single_trajectory_has_the_episodes_reward() -> None:
    split = split_episode(episode(AGENT, [("agent", 0.0, "c0 c1 c2")], reward=3.0), 7, "g1", {})
    steps = (("c0", 0.0), ("c1", 0.0), ("c2", 0.0))
    assert split.trajectories == [Trajectory(7, "g1", "agent", 3.0, True, steps=steps)]
    assert split.owners == {"c0": 0, "c1": 0, "c2": 0}


def test_the_answer_that_ended_the_episode_belongs_to_its_only_trajectory() -> None:
    assert split_episode(episode(AGENT, [("agent", 1.0, "c0 c1")]), 0, "g", {}).owners == {"c0": 0, "c1": 0, "c2": 0}


def test_a_step_has_its_monte_carlo_return() -> None:
    made = episode(AGENT, [("agent", 1.0, "c0 c1")], reward=1.0)
    for step, mc_return in zip(made.trajectories[0].steps, (0.9, 1.0), strict=True):
        step.mc_return = mc_return
    expected = (("c0", 0.9), ("c1", 1.0), ("c2", 0.0))  # Nothing was earned after the answer that became no step.
    assert split_episode(made, 0, "g", {}).trajectories[0].steps == expected
    made.masked = True
    assert split_episode(made, 0, "g", {}).trajectories[0].steps == expected  # It counts in the statistics.
    silent = split_episode(episode({"c0": "a", "c1": "a"}, [], reward=2.0), 0, "g", {})
    assert silent.trajectories[0].steps == (("c0", 2.0), ("c1", 2.0))


def test_calls_of_unnamed_sub_agents_are_context() -> None:
    within = split_episode(episode(AGENT, [("agent", 1.0, "c0 c2")]), 0, "g", {})
    assert within.owners == {"c0": 0, "c2": 0}
    behind = split_episode(episode({**AGENT, "c3": "helper"}, [("agent", 1.0, "c0 c1 c2")]), 0, "g", {})
    assert "c3" not in behind.owners


def test_several_trajectories_keep_their_own_rewards_and_the_first_to_name_a_call_owns_it() -> None:
    calls = {"c0": "solver", "c1": "solver", "c2": "judge", "c3": "judge"}
    reported = [("solver", 1.0, "c0"), ("solver", 0.0, "c1"), ("judge", 0.5, "c2 c1")]
    split = split_episode(episode(calls, reported, reward=9.0), 0, "g", {})
    assert members(split) == [("solver", 1.0), ("solver", 0.0), ("judge", 0.5)]
    assert split.owners == {"c0": 0, "c1": 1, "c2": 2}


def test_without_trajectories_there_is_one_a_role() -> None:
    split = split_episode(episode({"c0": "b", "c1": "a", "c2": "b"}, [], reward=2.0), 0, "g", {})
    assert (members(split), split.owners) == ([("b", 2.0), ("a", 2.0)], {"c0": 0, "c1": 1, "c2": 0})


def test_a_roles_only_trajectory_that_names_nothing_gets_the_roles_calls() -> None:
    calls = {"c0": "solver", "c1": "judge", "c2": "judge"}
    split = split_episode(episode(calls, [("solver", 1.0, "c0"), ("judge", 0.0, "")]), 0, "g", {})
    assert split.owners == {"c0": 0, "c1": 1, "c2": 1}


def test_a_demonstration_is_one_trajectory_whatever_its_calls_say() -> None:
    split = split_episode(episode({"c0": "x", "c1": "y"}, [], purpose=types.PURPOSE_DEMONSTRATION), 0, "g", {})
    assert (members(split), split.owners) == ([("agent", 0.0)], {"c0": 0, "c1": 0})


def test_frozen_roles_and_masked_episodes_train_nothing() -> None:
    frozen = {"judge": RoleSettings("grpo", 2, trained=False)}
    calls = {"c0": "solver", "c1": "judge", "c2": "judge"}
    split = split_episode(episode(calls, [("solver", 1.0, "c0 c1"), ("judge", 0.0, "c2")]), 0, "g", frozen)
    assert split.owners == {"c0": 0}
    assert [one.trained for one in split.trajectories] == [True, False]
    masked = split_episode(episode(AGENT, [("agent", 1.0, "c0")], masked=True), 0, "g", {})
    assert (masked.owners, members(masked)) == ({}, [("agent", 0.0)])


def advantages(given: list[tuple[str, str, float]], roles: dict[str, RoleSettings] | None = None) -> list[float]:
    roles = roles or {}
    made = [Trajectory(i, g, role, r, role not in roles or roles[role].trained) for i, (g, role, r) in enumerate(given)]
    rows = [one_token(index) for index in range(len(made))]
    return [float(row.advantages[0]) for row in with_advantages(rows, made, GRPO, roles)]


def one_token(trajectory: int) -> Row:
    one = np.ones(1, dtype=np.float32)
    return Row(trajectory, np.array([1, 2]), np.array([1]), -one, np.zeros(1, int), one, one > 0, one, trajectory)


def test_an_overlong_trajectory_pays_for_its_length() -> None:
    options = jobs.PolicyGradient(overlong=jobs.Overlong(max_tokens=2, buffer_tokens=2, penalty=1.0))
    algorithm = replace(GRPO, advantage="reinforce", min_group=1, options=options)
    (row,) = with_advantages([one_token(0)], [Trajectory(0, "g0", "agent", 1.0, True)], algorithm, {})
    assert row.advantages.tolist() == [0.5]


def test_a_group_is_a_role_at_a_task() -> None:
    solvers = [("g0", "solver", 1.0), ("g0", "solver", 0.0), ("g0", "solver", 0.0), ("g1", "solver", 5.0)]
    alone = advantages(solvers)
    assert alone[3] == 0
    assert alone[:3] == pytest.approx([1.154699, -0.577349, -0.577349], abs=1e-5)
    assert advantages([*solvers, ("g0", "judge", 100.0)]) == [*alone, 0]


def test_a_single_member_learns_nothing_from_a_comparison_and_something_from_its_reward() -> None:
    given = [("g0", "judge", 0.25), ("g1", "judge", -2.0)]
    assert advantages(given) == [0, 0]
    assert advantages(given, {"judge": RoleSettings("rloo", 2)}) == [0, 0]
    assert advantages(given, {"judge": RoleSettings("reinforce", 1)}) == [0.25, -2.0]


def test_frozen_members_are_in_no_statistics() -> None:
    given = [("g0", "a", 1.0), ("g0", "a", 0.0), ("g0", "b", 100.0)]
    roles = {"b": RoleSettings("reinforce", 1, trained=False)}
    assert advantages(given, roles) == [*advantages(given[:2]), 0]


def test_whitening_sees_one_role_and_only_groups_that_count() -> None:
    roles = {"a": RoleSettings("reinforce++-baseline", 2)}
    given = [("g0", "a", 1.0), ("g0", "a", 0.0), ("g1", "a", 1.0), ("g1", "a", 0.0)]
    expected = advantages(given, roles)
    assert np.abs(expected).tolist() == pytest.approx([0.866025] * 4, abs=1e-5)
    assert advantages([*given, ("g2", "a", 50.0), ("g0", "b", 9.0)], roles) == [*expected, 0, 0]
    assert advantages([("g0", "a", 0.1), ("g0", "a", 0.1), ("g0", "a", 0.1)], roles) == [0, 0, 0]


SOLVED, FAILED = [70, 260], [71, 260]


def two_roles(sampler: Sampler, sample: int, answer: list[int], verdict: float) -> types.Episode:
    """A solver whose answer is right or not, and a judge that always says the same."""
    turns = [Turn(PROMPT, answer), Turn([*PROMPT, *answer, 80], [90, 260])]
    made = sampler.episode(0, sample, turns, verdict)
    for call, role in zip(made.calls, ("solver", "judge"), strict=True):
        call.role = role
        made.trajectories.add(role=role, reward=verdict if role == "solver" else 0.5, steps=[{"call_id": call.id}])
    made.reward = verdict + 0.5
    return made


async def test_roles_train_by_their_own_estimators_end_to_end(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Any
) -> None:
    spec = grpo_spec(model_path)
    spec.roles.add(name="judge", advantage=types.ADVANTAGE_ESTIMATOR_REINFORCE)
    await trainer.configure(spec)
    batch = [two_roles(sampler, i, answer, r) for i, (answer, r) in enumerate([(SOLVED, 1.0), (FAILED, 0.0)])]
    metrics = (await trainer.train(await stream.manifest(0, batch))).metrics
    assert (metrics["reward/solver/mean"], metrics["reward/judge/mean"]) == (0.5, 0.5)
    assert (metrics["reward/solver/min"], metrics["reward/solver/max"]) == (0, 1)
    assert (metrics["advantage/judge/mean"], metrics["tokens_trained/judge"]) == (0.5, 4)
    assert (metrics["trajectories/solver"], metrics["rows_trained"]) == (2, 4)
    assert metrics["logprob_diff/episodes_checked"] == 2
    assert metrics["logprob_diff/max"] < 1e-5


async def test_a_frozen_role_is_context_end_to_end(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Any
) -> None:
    spec = grpo_spec(model_path)
    spec.roles.add(name="judge", frozen=True)
    await trainer.configure(spec)
    batch = [two_roles(sampler, i, answer, r) for i, (answer, r) in enumerate([(SOLVED, 1.0), (FAILED, 0.0)])]
    metrics = (await trainer.train(await stream.manifest(0, batch))).metrics
    assert (metrics["rows_trained"], metrics["tokens_trained"], metrics["tokens_context"]) == (2, 4, 4)
    assert (metrics["tokens_trained/judge"], metrics["reward/judge/mean"]) == (0, 0.5)


async def test_voided_members_are_in_no_statistics(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Any
) -> None:
    """A manifest's voided entries, whatever reward they were sealed with, change no advantage."""
    await trainer.configure(grpo_spec(model_path))
    sound = group(sampler)[:2]
    plain = (await trainer.train(await stream.manifest(0, sound))).metrics
    manifest = events.BatchManifest.FromString(await stream.manifest(1, group(sampler, 1, 1)[:2]))
    voided = group(sampler, 1)[2]
    voided.reward = 1000.0
    await stream.publish(voided)
    manifest.voided.add(episode_id=voided.id, failure_class=types.FAILURE_CLASS_ENVIRONMENT, reason="RetriesExhausted")
    metrics = (await trainer.train(manifest.SerializeToString())).metrics
    for name in ("episodes", "reward/mean", "advantage/agent/abs_mean", "tokens_trained"):
        assert metrics[name] == plain[name]
