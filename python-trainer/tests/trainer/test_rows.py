# SPDX-License-Identifier: Apache-2.0
"""Calls → rows: exact prefix merge, forks counted once, nothing unlabelled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.episode_rows import episode_rows
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import ContractError


def call(name: str, prompt: list[int], completion: list[int], parent: str = "", version: int = 0) -> types.ModelCall:
    span = types.VersionSpan(start=0, end=len(completion), policy_version=version)
    return types.ModelCall(
        id=name,
        parent_id=parent,
        prompt_ids=prompt,
        completion_ids=completion,
        logprobs=[-float(token) for token in completion],
        version_spans=[span],
    )


def episode(*calls: types.ModelCall, **fields: Any) -> types.Episode:
    return types.Episode(id="toy/g0/s0", purpose=types.PURPOSE_TRAIN, calls=calls, **fields)


def content(row: Row) -> tuple[list[int], list[int]]:
    return row.token_ids.tolist(), row.positions.tolist()


def test_a_conversation_becomes_one_row() -> None:
    calls = call("c0", [1, 2], [3, 4]), call("c1", [5], [6], "c0", version=2), call("c2", [7], [8], "c1", version=3)
    (row,) = episode_rows(episode(*calls), 5, step=3)
    assert content(row) == ([1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 5, 7])
    assert row.logprobs.tolist() == [-3, -4, -6, -8]
    assert (row.versions.tolist(), row.episode) == ([0, 0, 2, 3], 5)


def test_roots_become_rows_of_their_own() -> None:
    rows = episode_rows(episode(call("c0", [1], [2]), call("c1", [3], [4])), 0, step=0)
    assert [content(row) for row in rows] == [([1, 2], [1]), ([3, 4], [1])]


def test_a_fork_repeats_the_prefix_without_training_it_again() -> None:
    calls = call("c0", [1], [2]), call("c1", [3], [4], "c0"), call("c2", [5], [6], "c0"), call("c3", [7], [8], "c2")
    first, fork = episode_rows(episode(*calls), 0, step=0)
    assert content(first) == ([1, 2, 3, 4], [1, 3])
    assert content(fork) == ([1, 2, 5, 6, 7, 8], [3, 5])


def test_a_late_fork_ends_the_prefix_at_its_parent() -> None:
    calls = call("c0", [1], [2]), call("c1", [3], [4], "c0"), call("c2", [5], [6], "c1"), call("c3", [9], [9], "c1")
    assert content(episode_rows(episode(*calls), 0, step=0)[1]) == ([1, 2, 3, 4, 9, 9], [5])


def test_the_rows_of_a_trajectory_count_as_one_rollout_together() -> None:
    calls = call("c0", [1], [2, 3, 4]), call("c1", [5], [6], "c0"), call("c2", [7], [8], "c0"), call("c3", [9], [10])
    rows = episode_rows(episode(*calls), 0, 0, {"c0": 0, "c1": 0, "c2": 0, "c3": 1}, first_trajectory=5)
    assert [(row.trajectory, row.share) for row in rows] == [(5, 0.8), (5, 0.2), (6, 1.0)]


def test_context_is_seen_and_not_trained() -> None:
    chain = [call(f"c{i}", [10 * i + 1], [10 * i + 2], f"c{i - 1}" if i else "") for i in range(4)]
    (row,) = episode_rows(episode(*chain, call("c4", [7], [8])), 0, 0, {"c0": 0, "c3": 0})
    assert content(row) == ([1, 2, 11, 12, 21, 22, 31, 32], [1, 7])


def test_context_may_lack_labels_and_logprobs_and_may_be_greedy() -> None:
    bare = types.ModelCall(id="c0", prompt_ids=[1], completion_ids=[2], sampling=types.Sampling(temperature=0))
    (row,) = episode_rows(episode(bare, call("c1", [3], [4], "c0")), 0, 0, {"c1": 0})
    assert content(row) == ([1, 2, 3, 4], [3])


def test_a_greedy_call_between_sampled_ones_is_context() -> None:
    greedy = call("c1", [5], [6], "c0")
    greedy.sampling.temperature = 0
    (row,) = episode_rows(episode(call("c0", [1, 2], [3, 4]), greedy, call("c2", [7], [8], "c1")), 0, step=0)
    assert content(row) == ([1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 7])
    assert row.calls == (("c0", 2), ("c2", 1))


def test_two_players_of_one_transcript_have_one_row_each() -> None:
    calls = [call(f"c{i}", [10 * i + 1], [10 * i + 2], f"c{i - 1}" if i else "") for i in range(4)]
    rows = episode_rows(episode(*calls), 0, 0, {"c0": 0, "c1": 1, "c2": 0, "c3": 1})
    transcript = [1, 2, 11, 12, 21, 22, 31, 32]
    assert [(row.trajectory, *content(row)) for row in rows] == [(0, transcript[:6], [1, 5]), (1, transcript, [3, 7])]


def test_demonstrations_follow_their_mask() -> None:
    shown = types.ModelCall(id="c0", prompt_ids=[1], completion_ids=[2, 3, 4], demonstration_mask=[1, 0, 1])
    (row,) = episode_rows(types.Episode(purpose=types.PURPOSE_DEMONSTRATION, calls=[shown]), 0, step=0)
    assert content(row) == ([1, 2, 3, 4], [1, 3])
    assert not row.comparable.any()


def test_a_masked_episode_trains_nothing_even_if_unlabelled() -> None:
    unlabelled = types.ModelCall(id="c0", prompt_ids=[1], completion_ids=[2], logprobs=[-1])
    assert episode_rows(episode(unlabelled, masked=True), 0, step=0) == []


@pytest.mark.parametrize("part", [types.Sampling(top_p=0.9), types.Sampling(top_k=20)])
def test_a_call_drawn_from_a_part_of_the_vocabulary_is_context(part: types.Sampling) -> None:
    drawn = call("c0", [1], [2])
    drawn.sampling.MergeFrom(part)
    (row,) = episode_rows(episode(drawn, call("c1", [3], [4], "c0")), 0, step=0)
    assert content(row) == ([1, 2, 3, 4], [3])


def broken(**changes: Any) -> types.ModelCall:
    given_call = call("c1", [1], [2, 3])
    for name, value in changes.items():
        given_call.ClearField(name)
        given_call.MergeFrom(types.ModelCall(**{name: value}))
    return given_call


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (broken(version_spans=[types.VersionSpan(start=1, end=2)]), "token 0 of 2 has no policy version"),
        (broken(version_spans=[]), "token 0 of 2 has no policy version"),
        (broken(version_spans=[types.VersionSpan(start=0, end=3)]), "version span [0, 3) of 2 tokens"),
        (
            broken(version_spans=[types.VersionSpan(start=0, end=2), types.VersionSpan(start=1, end=2)]),
            "version span [1, 2) has tokens of another span",
        ),
        (call("c1", [1], [2, 3], version=1), "newer than step 0"),
        (broken(logprobs=[-1.0]), "2 completion ids but 1 logprobs"),
        (broken(logprobs=[-1.0, float("nan")]), "not finite"),
        (broken(parent_id="c9"), "parent 'c9' is not an earlier call"),
        (broken(prompt_ids=[]), "without a prompt"),
    ],
)
def test_what_breaks_the_contract_is_refused(bad: types.ModelCall, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        episode_rows(episode(bad), 0, step=0)
    assert words in str(caught.value)
    assert "toy/g0/s0 call c1" in str(caught.value)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 7), st.integers(-1, 2)), min_size=1, max_size=8))
def test_every_owned_token_is_trained_exactly_once_with_its_true_prefix(tree: list[tuple[int, int]]) -> None:
    """Any tree of calls: (parent, owner) of call i; a root if there is no such earlier call; owner -1: context."""
    parents = [parent for parent, _ in tree]
    owners = {f"c{index}": owner for index, (_, owner) in enumerate(tree) if owner >= 0}
    calls, full = [], []
    for index, parent in enumerate(parents):
        is_root = parent < 0 or parent >= index
        prompt, completion = [100 + index], [200 + 2 * index, 201 + 2 * index]
        calls.append(call(f"c{index}", prompt, completion, "" if is_root else f"c{parent}"))
        full.append(([] if is_root else full[parent]) + prompt + completion)
    rows = episode_rows(episode(*calls), 0, 0, owners)
    trained = [int(row.token_ids[position]) for row in rows for position in row.positions]
    assert sorted(trained) == sorted(token for one in calls if one.id in owners for token in one.completion_ids)
    for row in rows:
        for position in row.positions.tolist():
            index = (int(row.token_ids[position]) - 200) // 2
            assert row.trajectory == owners[f"c{index}"]
            assert row.token_ids[: position + 1].tolist() == full[index][: position + 1]
    for owner in set(owners.values()):
        assert sum(row.share for row in rows if row.trajectory == owner) == pytest.approx(1)
