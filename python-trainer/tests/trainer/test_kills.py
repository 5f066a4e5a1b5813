# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of the trainer at random moments of a run: weights, optimizer and books are those of the undisturbed one.

`make kill-trainer` does it more often; it prints a JSON line for each algorithm.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from forked_trainers import forker
from kill_run import KillRun, books, lives
from trainer_kit import Stream, grpo_spec, ppo_spec

from whetstone_models.manifest import verify_manifest

KILLS, SEED = int(os.environ.get("WHETSTONE_KILLS", "3")), int(os.environ.get("WHETSTONE_SEED", "1"))
# So that every trainer does a few steps between two kills.
STEPS = 4 * KILLS
SPECS = {"GRPO": grpo_spec, "PPO": ppo_spec}


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("algorithm", SPECS)
async def test_killed_at_random_moments_it_comes_to_the_same(
    algorithm: str, nats_url: str, stream: Stream, model_path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "trainer.log"
    of = KillRun(SPECS[algorithm](model_path, steps=STEPS, batch_groups=2, max_policy_lag=1), STEPS)
    with forker(nats_url, log) as trainers:
        same = await of.undisturbed(trainers, stream, tmp_path / "undisturbed")
    assert len(same.weights) == STEPS, "every step moves the weights"
    left, phases, seconds = lives(same.seconds, KILLS, SEED), Counter[str](), list[float]()
    with forker(nats_url, log) as trainers:
        while left:
            run = tmp_path / f"disturbed-{len(seconds)}"
            found = await of.disturbed(trainers, same, run, left)
            assert books(run, STEPS) == books(tmp_path / "undisturbed", STEPS)
            assert verify_manifest(run / "weights" / f"v{STEPS}").version == STEPS
            assert not list(run.glob("**/.*.tmp"))
            phases.update(found.killed_while)
            seconds.append(round(found.seconds, 2))
    assert phases.total() == KILLS
    line = {"algorithm": algorithm, "seed": SEED, "steps": STEPS, "kills": KILLS, "phases": dict(phases)}
    print(json.dumps({**line, "undisturbed_s": round(same.seconds, 2), "disturbed_s": seconds, "equal": True}))
