# SPDX-License-Identifier: Apache-2.0
"""Our adapters beside those of an installed peft (0.21.2 was tried): it loads what we publish, and trains it alike.

Skipped unless `import peft` works: it asks for a PyTorch of its own choice, so it is not among the pinned requirements.
WHETSTONE_PEFT may name folders, as PYTHONPATH does, with it and what it needs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from test_gradients import make_rows, scores
from test_lora import POLICIES, adapter_in, moved, require_two_steps, with_adapter

from whetstone_models.hugging_face import load_causal_lm
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy

sys.path += [one for one in os.environ.get("WHETSTONE_PEFT", "").split(os.pathsep) if one]
peft = pytest.importorskip("peft", exc_type=ImportError)


@pytest.mark.parametrize("kind", sorted(POLICIES))
def test_two_steps_are_those_of_peft(model_path: Path, tmp_path: Path, kind: str) -> None:
    policy = with_adapter(POLICIES[kind](model_path), model_path, alpha=32)
    policy.write(tmp_path / "v0", 0, model_path)
    theirs = peft.PeftModel.from_pretrained(
        load_causal_lm(model_path), tmp_path / "v0" / "adapter", is_trainable=True
    ).double()
    naive = {name.replace(".default", ""): one for name, one in theirs.named_parameters() if one.requires_grad}
    require_two_steps(policy, theirs, naive, adapter_in(tmp_path / "v0"))


def test_peft_computes_what_we_compute_and_merges_what_we_serve(model_path: Path, tmp_path: Path) -> None:
    policy, rows = moved(with_adapter(POLICIES["ours"](model_path), model_path)), make_rows(8)
    policy.write(tmp_path / "v1", 1, model_path)
    theirs = peft.PeftModel.from_pretrained(load_causal_lm(model_path), tmp_path / "v1" / "adapter")
    merged, ours = HuggingFacePolicy(theirs.merge_and_unload()), scores(policy, rows)
    served = scores(POLICIES["ours"](tmp_path / "v1"), rows)
    of_peft = scores(merged, rows)
    for row in rows:
        np.testing.assert_allclose(of_peft[row.episode], ours[row.episode], atol=1e-5)
        np.testing.assert_allclose(of_peft[row.episode], served[row.episode], atol=1e-5)
