# SPDX-License-Identifier: Apache-2.0
"""What the training pass finds on its way is what a pass of its own would have found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from ranked_kit import far, local
from safetensors.torch import load_file
from test_gradients import GRPO, SETTINGS, adam, make_rows
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.proximal import anchor, is_local
from whetstone_trainer.backends.local import micro_batches
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.protocol import PolicyVersion, StepBatch, StepReport
from whetstone_trainer.batch.rows import Row, not_computed, with_shares
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, TrainSettings

TOKEN, UNWEIGHTED, SEQUENCE = (
    jobs.CORRECTION_LEVEL_TOKEN,
    jobs.CORRECTION_LEVEL_UNWEIGHTED,
    jobs.CORRECTION_LEVEL_SEQUENCE,
)


def corrected(level: jobs.CorrectionLevel, **correction: float) -> AlgorithmSettings:
    given = jobs.Correction(level=level, **correction)  # type: ignore
    return replace(GRPO, options=with_defaults(jobs.PolicyGradient(correction=given)))


def settings_of(algorithm: AlgorithmSettings, epochs: int = 1, mini_batches: int = 1) -> TrainSettings:
    batching = with_defaults(jobs.Batching(epochs=epochs, mini_batches=mini_batches))
    return replace(SETTINGS, algorithm=algorithm, batching=batching, optimizer=adam(learning_rate=1e-3))


def of_two_versions() -> list[Row]:
    """Half of the tokens are older than step 1; nobody has anchored them."""
    rows = [replace(row, old_logprobs=not_computed()) for row in make_rows(21)]
    return [replace(row, versions=np.arange(len(row.positions)) % 2) for row in rows]


def present(backend: LocalBackend, rows: list[Row], model: Path) -> list[np.ndarray]:
    return backend.log_probabilities(rows, PolicyVersion(0, model), lambda _: None)


def stepped(
    model: Path, to: Path, rows: list[Row], settings: TrainSettings, anchors_itself: bool
) -> tuple[StepReport, dict[str, torch.Tensor]]:
    """Step 1 from version 0; rows that do not anchor themselves are anchored by a pass of their own before."""
    backend = local()
    backend.configure(settings, model, lambda _: None)
    if not anchors_itself:
        correction = settings.algorithm.options.correction
        rows, _ = anchor(rows, 1, correction, lambda asked: present(backend, list(asked), model))
    report = backend.step(StepBatch(1, rows, settings, anchors_itself), lambda _: None)
    backend.publish(to, 2)
    return report, load_file(to / "model.safetensors")


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize(
    "algorithm",
    [corrected(TOKEN, cap=1.5), corrected(TOKEN, cap=2, floor=0.5), corrected(UNWEIGHTED), corrected(SEQUENCE)],
    ids=["capped", "masked", "unweighted", "sequence"],
)
def test_rows_anchored_in_the_pass_move_the_weights_as_rows_anchored_before(
    model_path: Path, tmp_path: Path, algorithm: AlgorithmSettings, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "CPU_TOKENS", 40)
    settings, rows = settings_of(algorithm, epochs), of_two_versions()
    assert is_local(rows, algorithm)
    within, moved = stepped(model_path, tmp_path / "within", rows, settings, anchors_itself=True)
    before, expected = stepped(model_path, tmp_path / "before", rows, settings, anchors_itself=False)
    assert far(moved, expected) <= 1e-6
    assert far(moved, load_file(model_path / "model.safetensors")) > 5e-4
    for name, value in before.metrics.items():
        assert within.metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_the_step_tells_what_the_policy_gave_that_entered_it(model_path: Path, tmp_path: Path) -> None:
    """Of all rows with a gradient; of several mini-batches only those that came before the first optimizer step."""
    backend, rows = local(), make_rows(9)
    rows[4] = replace(rows[4], advantages=np.zeros_like(rows[4].advantages))
    plain = replace(GRPO, options=with_defaults(jobs.PolicyGradient()))
    backend.configure(settings_of(plain), model_path, lambda _: None)
    expected = present(backend, rows, model_path)
    for mini_batches, told in ((1, 8), (3, 3)):
        settings = settings_of(plain, epochs=2, mini_batches=mini_batches)
        report, _ = stepped(model_path, tmp_path / str(mini_batches), rows, settings, anchors_itself=False)
        assert report.entering[4] is None
        found = [(one, right) for one, right in zip(report.entering, expected, strict=True) if one is not None]
        assert told - 1 <= len(found) <= told
        for one, right in found:
            np.testing.assert_allclose(one, right, atol=1e-5)


def test_an_anchor_that_needs_other_rows_is_not_left_to_the_pass() -> None:
    rows = make_rows(6)
    several = with_shares([replace(row, trajectory=row.trajectory // 2) for row in rows])
    gspo = replace(corrected(TOKEN), token_loss="gspo")
    assert is_local(several, corrected(TOKEN))
    assert not is_local(several, corrected(SEQUENCE))
    assert is_local(rows, gspo)
    assert not is_local(several, gspo)
    assert not is_local(rows, corrected(TOKEN, normalize=True))
    rejecting = corrected(TOKEN)
    rejecting.options.correction.reject.add(statistic=jobs.REJECTION_STATISTIC_TOKEN_K2, high=0.4)
    assert not is_local(rows, rejecting)
    referred = corrected(TOKEN)
    referred.options.kl.coefficient = 0.1
    assert not is_local(rows, referred)
