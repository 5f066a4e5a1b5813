# SPDX-License-Identifier: Apache-2.0
"""I10: the gradient of a mini-batch does not depend on how it is cut, packed or ordered; masked tokens have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from trainer_kit import agg_loss
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.folder import load_model
from whetstone_models.init import init_model
from whetstone_trainer.backends.local import tree_attention
from whetstone_trainer.backends.local.first_pass import FirstPass
from whetstone_trainer.backends.local.learner import PolicyTally, accumulate, train_rows
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import (
    MicroBatch,
    micro_batches,
    mini_batches,
    row_weights,
    unit_of,
)
from whetstone_trainer.backends.local.optimizer import learning_rate, make_optimizer
from whetstone_trainer.backends.local.policy import Policy, TransformerPolicy
from whetstone_trainer.backends.local.sequences import of_several_rows
from whetstone_trainer.batch import packing
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AGGREGATIONS, AlgorithmSettings, TrainSettings


def adam(**settings: float) -> jobs.Optimizer:
    return with_defaults(jobs.Optimizer(**settings))  # type: ignore


GRPO = AlgorithmSettings(
    "grpo", "grpo", "clipped", options=with_defaults(jobs.PolicyGradient(entropy_coefficient=0.01))
)
SETTINGS = TrainSettings("toy", "", 1, 10, 0, 1, 2, False, GRPO, adam(), with_defaults(jobs.Batching()))


ADVANTAGES = np.random.default_rng(5).normal(size=32)


def make_rows(count: int, seed: int = 0) -> list[Row]:
    """Rows with shared prompts, shared answers, several turns and different lengths."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, 262, size) for size in (3, 5, 9)]
    rows = []
    for index in range(count):
        prompt, turns = prompts[index % 3], rng.integers(1, 4)
        tail = np.concatenate([rng.integers(65, 67, 2 + turn) for turn in range(turns)])
        trained = np.flatnonzero(rng.random(len(tail)) < 0.6)
        trained = trained if len(trained) else np.array([0])
        logprobs = rng.uniform(-6, -4, len(trained)).astype(np.float32)
        rows.append(
            Row(
                index,
                np.concatenate([prompt, tail]),
                trained + len(prompt),
                logprobs,
                np.zeros(len(trained), dtype=np.int64),
                np.full(len(trained), 1.0 + index % 2, dtype=np.float32),
                np.ones(len(trained), dtype=bool),
                np.ones(len(trained), dtype=np.float32),
                trajectory=index,
                advantages=np.full(len(trained), ADVANTAGES[index % len(ADVANTAGES)], dtype=np.float32),
                old_logprobs=logprobs,
            )
        )
    return rows


def gradient(policy: Policy, parts: list[list[Row]], algorithm: AlgorithmSettings, budget: int = 10**6):
    """Of the mini-batch that `parts` make up, one `micro_batches` call a part."""
    rows = [row for part in parts for row in part]
    settings = replace(SETTINGS, algorithm=algorithm)
    weights = row_weights(rows, algorithm, 12.0)
    several = of_several_rows(policy, rows, TokenBudget(budget), algorithm)
    policy.module.zero_grad(set_to_none=True)
    for part in parts:
        for micro in policy.cut(part, budget):
            accumulate(policy, micro, weights, several, settings, PolicyTally(), FirstPass())
    return torch.cat(
        [parameter.grad.flatten() for parameter in policy.module.parameters() if parameter.grad is not None]
    )


@pytest.fixture
def policy(model_path: Path) -> TransformerPolicy:
    return TransformerPolicy(load_model(model_path, device=DEVICE))


@pytest.mark.parametrize("aggregation", sorted(set(AGGREGATIONS.values())))
def test_the_split_into_micro_batches_changes_no_gradient(policy: TransformerPolicy, aggregation: str) -> None:
    rows, algorithm = make_rows(21), replace(GRPO, aggregation=aggregation)
    whole = gradient(policy, [rows], algorithm)
    assert whole.abs().max() > 1e-4
    for count in (2, 7):
        parts = [[rows[i] for i in part] for part in np.array_split(np.arange(21), count)]
        assert (gradient(policy, parts, algorithm) - whole).abs().max() < 1e-6 * max(1, float(whole.abs().max()))
    assert (gradient(policy, [rows], algorithm, budget=20) - whole).abs().max() < 1e-6 * max(
        1, float(whole.abs().max())
    )
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(21)]
    assert (gradient(policy, [shuffled], algorithm) - whole).abs().max() < 1e-6 * max(1, float(whole.abs().max()))


@pytest.mark.parametrize("aggregation", [name for name in sorted(set(AGGREGATIONS.values())) if "seq" in name])
def test_a_rollout_counts_once_however_many_rows_it_has(aggregation: str) -> None:
    """A rollout of three rows weighs as much as a rollout of one that has as many trained tokens."""
    rows, algorithm = make_rows(4), replace(GRPO, aggregation=aggregation)
    own = [replace(row, positions=row.positions[:1]) for row in rows[:3]]
    siblings = [replace(row, trajectory=0, share=1 / 3) for row in own]
    whole = replace(rows[3], positions=np.array([3, 4, 5]), trajectory=1)
    weights = row_weights([*siblings, whole], algorithm, 12.0)
    assert [weights[id(row)] for row in siblings] == pytest.approx([weights[id(whole)]] * 3)
    alone = row_weights([whole], algorithm, 12.0)
    assert weights[id(whole)] == pytest.approx(alone[id(whole)] / 2)


class RowByRow(TransformerPolicy):
    """The definition: every sequence alone, all logits."""

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return micro_batches(rows, token_budget, DEVICE, packed=False)

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        found = []
        for row in (branch.first for tree in batch.trees for branch in tree.branches):
            logits_TV = self.module(torch.from_numpy(row.token_ids)[None].to(DEVICE))[0][row.positions - 1]
            temperatures, targets = row.temperatures, row.token_ids[row.positions]
            log_softmax_KV = (logits_TV / torch.from_numpy(temperatures).to(DEVICE)[:, None]).log_softmax(-1)
            logprobs_K = log_softmax_KV.gather(1, torch.from_numpy(targets).to(DEVICE)[:, None])[:, 0]
            found.append((logprobs_K, -(log_softmax_KV.exp() * log_softmax_KV).sum(-1)))
        return torch.cat([logprobs for logprobs, _ in found]), torch.cat([entropies for _, entropies in found])


@pytest.mark.parametrize(
    ("masked_tokens", "branch_tokens", "budget"),
    [(256, 256, 10**6), (0, 256, 10**6), (0, 4, 10**6), (12, 1, 10**6), (0, 4, 30), (0, 4, 1)],
    ids=["masked", "long trees", "their branches in parts", "one by one", "trees cut by the budget", "chains"],
)
@pytest.mark.parametrize("kv_heads", [4, 2], ids=["own keys", "grouped"])
def test_packed_trees_score_and_train_as_rows_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    masked_tokens: int,
    branch_tokens: int,
    budget: int,
    kv_heads: int,
) -> None:
    init_model(tmp_path / "model", seed=3, num_key_value_heads=kv_heads)
    module, rows = load_model(tmp_path / "model", device=DEVICE), make_rows(30)
    # A prompt that is longer than the rest, and a row of it that predicts just the token after it.
    longer = [replace(row, token_ids=np.concatenate([np.arange(40), row.token_ids])) for row in rows[:9]]
    rows += [replace(row, positions=row.positions + 40, episode=row.episode + 30) for row in longer]
    columns = {name: one for name, one in vars(rows[-1]).items() if name != "token_ids" and isinstance(one, np.ndarray)}
    rows[-1] = replace(rows[-1], **{name: one[:1] for name, one in columns.items()})
    monkeypatch.setattr(tree_attention, "MASKED_TOKENS", masked_tokens)
    monkeypatch.setattr(tree_attention, "BRANCH_TOKENS", branch_tokens)
    packed, plain = TransformerPolicy(module), RowByRow(module)
    trees = packing.build_trees(rows, budget)
    assert (max(len(tree.branches) for tree in trees) > 2) == (budget > 1)
    for row, found in scores(packed, rows, budget).items():
        np.testing.assert_allclose(found, scores(plain, [one for one in rows if one.episode == row])[row], atol=1e-5)
    expected = gradient(plain, [rows], GRPO)
    assert (gradient(packed, [rows], GRPO, budget) - expected).abs().max() < 1e-6 * max(1, float(expected.abs().max()))


def test_branches_are_attended_by_masks_where_the_joined_pass_is_not_for(
    policy: TransformerPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, and in bfloat16."""
    monkeypatch.setattr(tree_attention, "MASKED_TOKENS", 0)
    joined = gradient(policy, [make_rows(30)], GRPO)
    asked: list[int] = []

    def masked(block: Any, query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        asked.append(len(query))
        return block._masked(query, *others)

    monkeypatch.setattr(tree_attention._LongTree, "_joined", masked)
    assert (gradient(policy, [make_rows(30)], GRPO) - joined).abs().max() < 1e-6 * max(1, float(joined.abs().max()))
    assert asked


def scores(policy: Policy, rows: list[Row], budget: int = 64) -> dict[int, np.ndarray]:
    found = {}
    with torch.no_grad():
        for micro in policy.cut(rows, budget):
            logprobs_N = policy.score(micro)[0][micro.token_of_N].cpu().numpy()
            for index, row in enumerate(micro.rows):
                found[row.episode] = logprobs_N[micro.row_of_N == index]
    return found


def alone(model: Callable[[torch.Tensor], torch.Tensor], row: Row) -> np.ndarray:
    """The definition: one sequence, all logits, softmax of logits / temperature."""
    with torch.no_grad():
        logits_TV = model(torch.from_numpy(row.token_ids)[None].to(DEVICE))[0]
        table = (logits_TV[row.positions - 1] / torch.from_numpy(row.temperatures)[:, None]).log_softmax(-1)
    return table.gather(1, torch.from_numpy(row.token_ids[row.positions])[:, None])[:, 0].numpy()


def test_masked_tokens_have_no_gradient_and_no_say() -> None:
    mask = torch.tensor([[1, 0, 1], [0, 0, 0]])
    losses = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    for mode in set(AGGREGATIONS.values()):
        loss = agg_loss(losses, mask, mode, total_tokens=2.0, total_rows=1.0)
        (found,) = torch.autograd.grad(loss, losses)
        assert torch.equal(found != 0, mask.bool())
        changed = torch.where(mask.bool(), losses, torch.tensor(float("nan")))
        assert torch.equal(agg_loss(changed, mask, mode, total_tokens=2.0, total_rows=1.0), loss)


def test_layers_computed_again_in_the_pass_back_give_the_same_gradient(policy: TransformerPolicy) -> None:
    rows = make_rows(12)
    kept = gradient(policy, [rows], GRPO)
    policy.module.model.recompute = True
    assert torch.equal(gradient(policy, [rows], GRPO), kept)


def test_what_follows_the_last_trained_token_changes_nothing(policy: TransformerPolicy) -> None:
    rows = make_rows(6)
    longer = [replace(row, token_ids=np.concatenate([row.token_ids, [7, 7]])) for row in rows]
    assert torch.equal(gradient(policy, [rows], GRPO), gradient(policy, [longer], GRPO))


def test_large_vocabularies_are_scored_in_chunks(policy: TransformerPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(12)
    whole = gradient(policy, [rows], GRPO)
    monkeypatch.setattr("whetstone_trainer.backends.local.scoring.MAX_LOGITS", 262 * 5)
    assert (gradient(policy, [rows], GRPO) - whole).abs().max() < 1e-6


def test_mini_batches_are_a_seeded_partition() -> None:
    rows = make_rows(10)

    def names(step: int) -> list[list[int]]:
        parts = mini_batches(rows, 3, seed=1, step=step, epoch=0, unit=unit_of(jobs.Batching()))
        return [[row.episode for row in part] for part in parts]

    assert sorted(name for part in names(2) for name in part) == list(range(10))
    assert [len(part) for part in names(2)] == [4, 3, 3]
    assert names(2) == names(2) != names(3)


def test_whole_groups_are_shuffled_among_mini_batches_and_never_cut() -> None:
    rows = [replace(row, group=row.episode // 4) for row in make_rows(40)]
    by_group = list(mini_batches(rows, 5, seed=1, step=2, epoch=0, unit=unit_of(jobs.Batching(whole_groups=True))))
    assert [len(part) for part in by_group] == [8] * 5
    assert [len({row.group for row in part}) for part in by_group] == [2] * 5
    assert [row.group for part in by_group for row in part] != sorted(row.group for row in rows)
    by_trajectory = mini_batches(rows, 5, seed=1, step=2, epoch=0, unit=unit_of(jobs.Batching()))
    assert max(len({row.group for row in part}) for part in by_trajectory) > 2


def test_whole_groups_compute_a_shared_prompt_once_a_pass(
    policy: TransformerPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = list[int]()

    def counting(part: Sequence[Row], budget: int) -> Iterator[MicroBatch]:
        for micro in micro_batches(part, budget, DEVICE):
            fed.append(len(micro.token_ids_T))
            yield micro

    def fed_in_a_step(whole_groups: bool) -> int:
        fed.clear()
        batching = with_defaults(jobs.Batching(mini_batches=3, whole_groups=whole_groups))
        settings = replace(SETTINGS, batching=batching)
        optimizer = make_optimizer(policy.module, adam(learning_rate=1e-9))
        assert train_rows(policy, optimizer, rows, settings, 0, lambda _: None)["optimizer_steps"] == 3
        return sum(fed)

    monkeypatch.setattr(policy, "cut", counting)
    rows = [with_long_prompt(row, group=row.episode % 3) for row in make_rows(30)]
    assert fed_in_a_step(whole_groups=True) < 0.8 * fed_in_a_step(whole_groups=False)


def with_long_prompt(row: Row, group: int) -> Row:
    """`make_rows` has three prompts, in turn."""
    longer = np.concatenate([np.full(200, 7), row.token_ids])
    return replace(row, token_ids=longer, positions=row.positions + 200, group=group)


def test_passes_of_a_wide_model_are_shorter_on_a_cpu() -> None:
    rng = np.random.default_rng(1)
    # None begins as another does, so that nothing is shared.
    rows = [
        replace(row, token_ids=np.concatenate([[row.episode], rng.integers(0, 262, 100)]), positions=np.array([100]))
        for row in make_rows(40)
    ]

    def longest(token_values: int) -> int:
        passes = micro_batches(rows, 10**6, torch.device("cpu"), token_values=token_values)
        return max(sum(tree.length for tree in one.trees) for one in passes)

    assert (longest(288), longest(12 * 768), longest(10**6)) == (2000, 1800, 1000)


def test_learning_rate_rises_and_falls() -> None:
    settings = adam(learning_rate=1.0, warmup_steps=3, final_rate_share=0.1)
    rates = [learning_rate(settings, step, 13) for step in range(13)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[12] == pytest.approx(0.1)
    assert sorted(rates[3:], reverse=True) == rates[3:]
    assert {learning_rate(adam(learning_rate=0.5), step, 5) for step in range(9)} == {0.5}


def test_a_step_that_leaves_weights_without_a_value_is_refused(model_path: Path) -> None:
    policy, rows = TransformerPolicy(load_model(model_path, device=DEVICE)), make_rows(4)
    settings = replace(SETTINGS, optimizer=adam(learning_rate=1.0, weight_decay=1e39))
    optimizer = make_optimizer(policy.module, settings.optimizer)
    with pytest.raises(TrainerError, match=r"the weights .* are not finite .* lower the learning rate"):
        train_rows(policy, optimizer, rows, settings, 0, lambda share: None)
