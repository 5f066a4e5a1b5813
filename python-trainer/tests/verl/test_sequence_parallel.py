# SPDX-License-Identifier: Apache-2.0
"""Ranks of the backend verl that compute each pass together, beside the backend local: the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from ranked_kit import CLOSE, BesideOneProcess, after, far, local, of_loss, published, run_of, several_rows, specs
from safetensors.torch import load_file
from test_critic import request, sampled
from test_gradients import SETTINGS
from test_truncated_sampling import truncated_rows
from trainer_kit import done

from whetstone_models.init import init_model
from whetstone_models.reading import OnBytes
from whetstone_trainer.backends.protocol import LoadedModel, PolicyVersion
from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.backends.verl.backend import VerlBackend
from whetstone_trainer.backends.verl.sequence_parallel import _mask
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import Sharding, TrainSettings

pytestmark = pytest.mark.timeout(300)


class Together(VerlBackend):
    """Pairs of ranks, whatever the job says."""

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        return super().configure(replace(settings, sharding=Sharding(sequence_parallel=2)), model, on_bytes)


@pytest.fixture(scope="module")
def ranked() -> Iterator[RankedBackend]:
    backend = Together(2, hang_s=20)
    yield backend
    backend.close()


class TestTogether(BesideOneProcess):
    @pytest.mark.parametrize("key_heads", [1, 2])
    def test_heads_of_keys_and_values_that_several_share(
        self, ranked: RankedBackend, tmp_path: Path, key_heads: int
    ) -> None:
        shape: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": key_heads, "intermediate_size": 64}
        init_model(tmp_path / "model", seed=4, hidden_size=32, num_hidden_layers=2, **shape)
        given = (tmp_path / "model", of_loss("clipped"), several_rows())
        assert far(after(local(), *given, tmp_path / "ours"), after(ranked, *given, tmp_path / "theirs")) <= CLOSE

    def test_tokens_of_truncated_sampling(self, ranked: RankedBackend, model_path: Path) -> None:
        rows, found = truncated_rows(9), []
        for backend in (local(), ranked):
            backend.configure(SETTINGS, model_path, lambda _: None)
            found.append(backend.log_probabilities(rows, PolicyVersion(0, model_path), lambda _: None))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)

    @pytest.mark.parametrize(
        ("sharding", "said"),
        [
            (Sharding(sequence_parallel=4), r"^sharding\.sequenceParallel: is 4 and must divide the trainer's 2 ranks"),
            (Sharding(offload=True), r"^sharding\.offload: the ranks have no GPU"),
        ],
    )
    def test_what_ranks_cannot_do_is_refused_by_its_path(
        self, ranked: RankedBackend, model_path: Path, sharding: Sharding, said: str
    ) -> None:
        with pytest.raises(TrainerError, match=said):
            VerlBackend.configure(
                cast("VerlBackend", ranked), replace(SETTINGS, sharding=sharding), model_path, lambda _: None
            )

    def test_a_model_whose_heads_cannot_be_divided_is_refused(self, ranked: RankedBackend, tmp_path: Path) -> None:
        shape: dict[str, Any] = {"num_attention_heads": 3, "num_key_value_heads": 3}
        init_model(tmp_path / "model", seed=4, hidden_size=36, num_hidden_layers=1, **shape)
        with pytest.raises(TrainerError, match=r"^sharding\.sequenceParallel: is 2 and must divide the model's 3 att"):
            ranked.configure(SETTINGS, tmp_path / "model", lambda _: None)


def test_two_pairs_are_the_same(ranked: RankedBackend, model_path: Path, tmp_path: Path) -> None:
    """Two of which compute a pass, and two another one, where there is one."""
    # Ray's cluster of this process is one for all, with room for a rank a CPU.
    ranked.close()
    backend = VerlBackend(4, hang_s=20)
    spec, folders = specs(model_path)["grpo"], (tmp_path / "ours", tmp_path / "theirs")
    # Adam moves a weight whose gradient is no more than rounding by any part of the rate: with 1e-3 one of 29,024 was
    # 1.15e-5 apart after the first step, where the next was 1.8e-6.
    spec.algorithm.policy_gradient.optimizer.learning_rate = 2e-4
    try:
        ours = run_of(spec, model_path, folders[0], local())
        spec.sharding.sequence_parallel = 2
        theirs = run_of(spec, model_path, folders[1], backend)
        for step in range(3):
            wanted = request(step, sampled(ours, 16, step))
            mine, other = done(ours, wanted).metrics, done(theirs, wanted).metrics
            for name in ("loss", "tokens", "row_updates", "entropy", "grad_norm"):
                assert other[name] == pytest.approx(mine[name], rel=1e-3, abs=1e-4), name
        assert far(published(folders[0], 3), load_file(model_path / "model.safetensors")) > 40 * CLOSE
        assert far(published(folders[0], 3), published(folders[1], 3)) <= CLOSE
    finally:
        backend.close()


def test_sequences_see_themselves_and_what_came_before() -> None:
    seen = _mask(torch.tensor([0, 1, 2, 0, 0, 1]), None)
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    assert _mask(torch.arange(3), 2).int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
