# SPDX-License-Identifier: Apache-2.0
"""`batching.recomputeActivations`: the same weights from less memory, and a clear word where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from compute_device import DEVICE
from ranked_kit import after, far, local, of_loss
from test_gradients import make_rows
from test_hugging_face import random_model
from torch.utils.checkpoint import checkpoint
from trainer_kit import ppo_spec, sft_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.transformer import Decoder
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.memory import decoders
from whetstone_trainer.backends.local.ranked import ProcessBackend
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import TrainSettings, parse_settings


def less() -> TrainSettings:
    return replace(of_loss("clipped"), batching=with_defaults(jobs.Batching(recompute_activations=True)))


@pytest.fixture
def computed_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a layer's inside was computed in a pass back."""
    seen: list[int] = []

    def counted(function: object, *given: object, use_reentrant: bool) -> torch.Tensor:
        def once(*inner: object) -> torch.Tensor:
            seen.append(1)
            return function(*inner)  # pyright: ignore[reportCallIssue]

        return checkpoint(once, *given, use_reentrant=use_reentrant)

    monkeypatch.setattr("whetstone_models.transformer.checkpoint", counted)
    return seen


def test_a_job_that_asks_for_it_has_the_same_weights(
    model_path: Path, tmp_path: Path, computed_again: list[int]
) -> None:
    rows = make_rows(21)
    kept = after(local(), model_path, of_loss("clipped"), rows, tmp_path / "kept")
    assert not computed_again
    assert far(after(local(), model_path, less(), rows, tmp_path / "less"), kept) == 0
    assert computed_again


def test_a_critic_keeps_less_too(model_path: Path) -> None:
    backend, spec = LocalBackend(DEVICE), ppo_spec(model_path)
    spec.algorithm.policy_gradient.batching.recompute_activations = True
    backend.configure(parse_settings(spec), model_path, lambda _: None)
    assert backend._job is not None
    assert backend._job.critic is not None
    found: list[Decoder] = decoders([backend._job.policy.module, backend._job.critic.module])
    assert [one.recompute for one in found] == [True, True]


def test_a_model_of_transformers_is_refused_by_path(tmp_path: Path) -> None:
    model = random_model("GPTNeoX", tmp_path / "other")
    with pytest.raises(
        SettingsError, match=r"^algorithm\.policyGradient\.batching\.recomputeActivations: is only done"
    ):
        local().configure(less(), model, lambda _: None)
    spec = sft_spec(model)
    spec.algorithm.sft.batching.recompute_activations = True
    with pytest.raises(SettingsError, match=r"^algorithm\.sft\.batching\.recomputeActivations: is only done"):
        local().configure(parse_settings(spec), model, lambda _: None)


@pytest.fixture
def two_ranks() -> Iterator[ProcessBackend]:
    backend = ProcessBackend(2, torch.device("cpu"), hang_s=60)
    yield backend
    backend.close()


@pytest.mark.skipif(DEVICE.type != "cpu", reason="two ranks need two GPUs")
def test_ranks_that_share_a_model_have_the_same_weights(
    two_ranks: ProcessBackend, model_path: Path, tmp_path: Path
) -> None:
    rows = make_rows(21)
    kept = after(two_ranks, model_path, of_loss("clipped"), rows, tmp_path / "kept")
    assert far(after(two_ranks, model_path, less(), rows, tmp_path / "less"), kept) == 0
