# SPDX-License-Identifier: Apache-2.0
"""A whole step beside a naive one: transformers in float64, a loop over rows, every formula written out again.

Ours computes in float32, packed and cut into micro-batches. Weights after the step agree to 1e-6 of their norm, and
what the step adds to them to 1e-4 of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import SETTINGS, adam, make_rows
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_trainer.algorithms.advantages import ESTIMATORS
from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings

LOW, HIGH, DUAL, BETA = 0.2, 0.28, 3.0, 0.1
OPTIONS = with_defaults(jobs.PolicyGradient(clip_low=LOW, clip_high=HIGH, clip_dual=DUAL, dro_beta=BETA))
REWARDS = np.array([1.0, 0.0, 0.5, 0.0, 2.0, 1.0, 0.0, 1.0, 1.5])
GROUPS = np.repeat([0, 1, 2], 3)
BASELINE = 0.25


def whitened(values: list[np.ndarray]) -> list[np.ndarray]:
    every = np.concatenate(values)
    return [(one - every.mean()) / np.sqrt(every.var(ddof=1) + 1e-8) for one in values]


def of_groups(formula: Callable[[np.ndarray, np.ndarray], np.ndarray], lengths: np.ndarray) -> list[np.ndarray]:
    found = np.concatenate([formula(REWARDS[one == GROUPS], lengths[one == GROUPS]) for one in range(3)])
    return [np.full(length, value) for value, length in zip(found, lengths, strict=True)]


def best_lead(r: np.ndarray, _: np.ndarray) -> np.ndarray:
    lead = (np.sort(r)[-1] - np.sort(r)[-2]) / (r.std(ddof=1) + 1e-6)
    return np.where(np.arange(len(r)) == r.argmax(), lead, 0)


def gae(lengths: np.ndarray, values: list[np.ndarray]) -> list[np.ndarray]:
    """With gamma and lambda 1 an advantage is what is still earned minus the value."""
    return whitened([np.full(n, r) - v for n, r, v in zip(lengths, REWARDS, values, strict=True)])


ADVANTAGES: dict[str, Callable[[np.ndarray, list[np.ndarray]], list[np.ndarray]]] = {
    "constant": lambda n, _: of_groups(lambda r, _: np.ones_like(r), n),
    "preference": lambda n, _: of_groups(lambda r, _: np.where(r == r.max(), 1.0, -1.0), n),
    "reinforce": lambda n, _: of_groups(lambda r, _: r, n),
    "grpo": lambda n, _: of_groups(lambda r, _: (r - r.mean()) / (r.std(ddof=1) + 1e-6), n),
    "rloo": lambda n, _: of_groups(lambda r, _: np.array([v - np.delete(r, i).mean() for i, v in enumerate(r)]), n),
    "opo": lambda n, _: of_groups(lambda r, lengths: r - (r * lengths).sum() / lengths.sum(), n),
    "gpg": lambda n, _: of_groups(lambda r, _: (r - r.mean()) * len(REWARDS) / (REWARDS != 0).sum(), n),
    "grpo-pass-at-k": lambda n, _: of_groups(best_lead, n),
    "raft": lambda n, _: of_groups(lambda r, _: (r > 0) * 1.0, n),
    "reinforce++": lambda n, _: whitened(of_groups(lambda r, _: r, n)),
    "reinforce++-baseline": lambda n, _: whitened(of_groups(lambda r, _: r - r.mean(), n)),
    "remax": lambda n, _: of_groups(lambda r, _: r - BASELINE, n),
    "gae": gae,
}


def clip_loss(ratio: Tensor, a: Tensor) -> Tensor:
    return torch.maximum(-a * ratio, -a * ratio.clamp(1 - LOW, 1 + HIGH))


def clipped(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    return torch.where(
        a < 0, torch.minimum(clip_loss((new - old).exp(), a), -DUAL * a), clip_loss((new - old).exp(), a)
    )


def gspo(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    return clip_loss((new - new.detach() + (new - old).mean().detach()).exp(), a)


def gmpo(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    ratio = new - old
    kept = torch.where(a < 0, ratio.clamp(min=-LOW), ratio.clamp(max=HIGH))
    return -a * (kept - kept.detach() + kept.mean().detach()).exp()


def sapo(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    tau = torch.ones_like(a) + 0.05 * (a <= 0)
    return -a * torch.sigmoid(tau * ((new - old).exp() - 1)) * 4 / tau


def dppo(far: Tensor, new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    return -a * (new - old).exp().clamp(max=DUAL).detach() * new * ~far


def dppo_tv(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    moved = (new.exp() - old.exp()).detach()
    return dppo(((a > 0) & (moved > HIGH)) | ((a <= 0) & (moved < -LOW)), new, old, a)


def dppo_kl(new: Tensor, old: Tensor, a: Tensor) -> Tensor:
    p, q = new.detach().exp(), old.exp()
    kl = q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log()
    return dppo(((a > 0) & (kl > HIGH) & (p > q)) | ((a <= 0) & (kl > LOW) & (p < q)), new, old, a)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nll": lambda new, _old, _a: -new,
    "reinforce": lambda new, _old, a: -a * new,
    "clipped": clipped,
    "gspo": gspo,
    "gmpo": gmpo,
    "cispo": lambda new, old, a: -a * (new - old).exp().clamp(1 - LOW, 1 + HIGH).detach() * new,
    "sapo": sapo,
    "dppo-tv": dppo_tv,
    "dppo-kl": dppo_kl,
    "dro": lambda new, old, a: -(a * new - BETA / 2 * (new - old) ** 2),
}


def test_every_estimator_and_loss_is_written_out() -> None:
    """Advantage none moves nothing by itself: its step is in test_distillation.py."""
    assert (set(ADVANTAGES), set(LOSSES)) == (set(ESTIMATORS) - {"none"}, set(TOKEN_LOSSES))


@pytest.fixture(scope="module", name="rows")
def _rows(model_path: Path) -> list[Row]:
    """Old log-probabilities not far from the model's own, so that some ratios are clipped and some are not."""
    model, rng = load_causal_lm(model_path).double(), np.random.default_rng(4)
    with torch.no_grad():
        own = [logprobs(model, row).numpy() for row in make_rows(len(REWARDS))]
    return [
        replace(
            row,
            old_logprobs=(logprobs_K + rng.normal(0, 0.4, len(logprobs_K))).astype(np.float32),
            values=rng.normal(size=len(logprobs_K)).astype(np.float32),
        )
        for row, logprobs_K in zip(make_rows(len(REWARDS)), own, strict=True)
    ]


def logprobs(model: torch.nn.Module, row: Row) -> Tensor:
    logits_TV = model(torch.from_numpy(row.token_ids)[None]).logits[0]
    table = (logits_TV[row.positions - 1] / torch.from_numpy(row.temperatures).double()[:, None]).log_softmax(-1)
    return table.gather(1, torch.from_numpy(row.token_ids[row.positions])[:, None])[:, 0]


def naive_advantages(rows: list[Row], estimator: str) -> list[np.ndarray]:
    lengths = np.array([len(row.positions) for row in rows])
    return ADVANTAGES[estimator](lengths, [row.values.astype(np.float64) for row in rows])


def naive_step(
    model_path: Path, rows: list[Row], advantages: list[np.ndarray], losses: list[str], mode: str
) -> dict[str, Tensor]:
    """What a step of plain gradient descent with rate 1 adds to each weight. `losses`: of each row."""
    model = load_causal_lm(model_path).double()
    lengths = np.array([len(row.positions) for row in rows])
    for row, a_K, loss in zip(rows, advantages, losses, strict=True):
        losses_K = LOSSES[loss](
            logprobs(model, row), torch.from_numpy(row.old_logprobs).double(), torch.from_numpy(a_K)
        )
        (losses_K.sum() / lengths.sum() if mode == "token-mean" else losses_K.mean() / len(rows)).backward()
    return {name: -one.grad for name, one in model.named_parameters() if one.grad is not None}


# Supervised fine-tuning reads no advantage.
PAIRS = [(one, loss) for one in sorted(ADVANTAGES) for loss in sorted(LOSSES) if loss != "nll" or one == "constant"]


@pytest.mark.parametrize(("estimator", "loss"), PAIRS)
def test_a_step_is_the_naive_one(model_path: Path, rows: list[Row], estimator: str, loss: str) -> None:
    mode = "seq-mean-token-mean" if TOKEN_LOSSES[loss].of_sequences or loss == "sapo" else "token-mean"
    algorithm = AlgorithmSettings("x", estimator, loss, mode, options=OPTIONS)
    expected = naive_step(model_path, rows, naive_advantages(rows, estimator), [loss] * len(rows), mode)
    require_the_step(model_path, with_advantages(rows, trajectories(), algorithm, {}), algorithm, expected)


@pytest.mark.parametrize(("loss", "of_judge"), [("clipped", "cispo"), ("gspo", "reinforce"), ("cispo", "dro")])
def test_a_step_of_two_roles_is_the_naive_one(model_path: Path, rows: list[Row], loss: str, of_judge: str) -> None:
    """The last group is the judge's, which has a loss of its own. Micro-batches hold rows of both."""
    algorithm = AlgorithmSettings("x", "rloo", loss, "seq-mean-token-mean", options=OPTIONS)
    judge = {"judge": RoleSettings("rloo", 2, token_loss=of_judge)}
    played = [replace(one, role="judge") if one.group == "g2" else one for one in trajectories()]
    losses = [of_judge if one.role == "judge" else loss for one in played]
    expected = naive_step(model_path, rows, naive_advantages(rows, "rloo"), losses, "seq-mean-token-mean")
    require_the_step(model_path, with_advantages(rows, played, algorithm, judge), algorithm, expected)


@pytest.mark.parametrize("loss", ["clipped", "gspo"])
def test_a_step_of_stepwise_advantages_is_the_naive_one(model_path: Path, rows: list[Row], loss: str) -> None:
    """Each trajectory with more than one trained token has two steps; a member is a step beside those of its number."""
    counts = [(len(row.positions) // 2, len(row.positions) - len(row.positions) // 2) for row in rows]
    of_calls = [
        replace(row, calls=(("c0", first), ("c1", rest)) if first else (("c0", rest),))
        for row, (first, rest) in zip(rows, counts, strict=True)
    ]
    returns = [[0.9 * r, r] if len(row.calls) == 2 else [r] for r, row in zip(REWARDS, of_calls, strict=True)]
    played = [
        replace(one, steps=tuple((call, gain) for (call, _), gain in zip(row.calls, gains, strict=True)))
        for one, row, gains in zip(trajectories(), of_calls, returns, strict=True)
    ]
    options = with_defaults(jobs.PolicyGradient(clip_low=LOW, clip_high=HIGH, grouping_level=jobs.GROUPING_LEVEL_STEP))
    algorithm = AlgorithmSettings("x", "rloo", loss, "seq-mean-token-mean", min_group=2, options=options)
    advantages = [
        np.repeat(
            [beside_its_like(returns, index, number) for number in range(len(row.calls))], [n for _, n in row.calls]
        )
        for index, row in enumerate(of_calls)
    ]
    expected = naive_step(model_path, of_calls, advantages, [loss] * len(rows), "seq-mean-token-mean")
    require_the_step(model_path, with_advantages(of_calls, played, algorithm, {}), algorithm, expected)


def beside_its_like(returns: list[list[float]], index: int, number: int) -> float:
    """A step's return less the mean of those that the group's other trajectories have at the same step."""
    others = [
        own[number] for i, own in enumerate(returns) if GROUPS[i] == GROUPS[index] and i != index and number < len(own)
    ]
    return returns[index][number] - float(np.mean(others)) if others else 0.0


def trajectories() -> list[Trajectory]:
    return [
        Trajectory(index, f"g{group}", "agent", float(reward), True, baseline=BASELINE)
        for index, (group, reward) in enumerate(zip(GROUPS, REWARDS, strict=True))
    ]


def require_the_step(
    model_path: Path, batch: list[Row], algorithm: AlgorithmSettings, expected: dict[str, Tensor]
) -> None:
    policy = TransformerPolicy(load_model(model_path))
    before = {name: one.detach().double().clone() for name, one in policy.module.named_parameters()}
    settings = replace(SETTINGS, algorithm=algorithm, optimizer=adam(learning_rate=1, gradient_clip=1e9))
    train_rows(policy, torch.optim.SGD(policy.module.parameters()), batch, settings, 0, lambda share: None)
    after = {name: one.detach().double() for name, one in policy.module.named_parameters()}
    assert set(expected) == set(before)
    moved, added = flat(expected), flat({name: after[name] - before[name] for name in expected})
    weights, expected_weights = flat(after), flat({name: before[name] + expected[name] for name in before})
    assert moved.norm() > 1e-3
    assert (weights - expected_weights).norm() < 1e-6 * expected_weights.norm()
    assert (added - moved).norm() < 1e-4 * moved.norm()


def flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])
