# SPDX-License-Identifier: Apache-2.0
"""Two whole steps of our trainer on one batch, at lag 0 and 1, in a process of their own. One JSON line.

`trainer_step.py MODEL EPISODES RUN [--recompute]`: a model folder, a file of episodes, a folder for the run; the job
may ask for activations that are computed again (`batching.recomputeActivations`).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import torch
from process_memory import load_libraries, peak_mib, resident_mib
from trainer_workloads import JOB
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder


def main() -> None:
    model, episodes, root = map(Path, sys.argv[1:4])
    torch.set_num_threads(1)
    load_libraries()
    empty = resident_mib()
    bodies = [bytes.fromhex(line) for line in episodes.read_text().splitlines()]
    spec = spec_of(model)
    spec.algorithm.policy_gradient.batching.recompute_activations = "--recompute" in sys.argv
    run = JobRun(parse_settings(spec), RunFolder(root, model), "u", LocalBackend(torch.device("cpu")))
    steps = [_step(run, number, bodies) for number in (0, 1)]
    print(json.dumps({"lag_0": steps[0], "lag_1": steps[1], "memory_mib": round(peak_mib() - empty)}))


def _step(run: JobRun, number: int, bodies: list[bytes]) -> dict[str, float]:
    request = request_of(number, bodies)
    started = time.process_time()
    result = run.train(request, untold)
    cpu_s = time.process_time() - started
    if result.dropped:
        sys.exit(f"{len(result.dropped)} episodes were not trained, so this is no figure: {result.dropped[0].message}")
    parts = {name: round(value, 3) for name, value in result.metrics.items() if name.startswith("time/")}
    return {"cpu_s": round(cpu_s, 3), "rows": result.rows, **parts}


def request_of(number: int, bodies: list[bytes]) -> StepRequest:
    """Step `number` with these episodes."""
    manifest = events.BatchManifest(job=JOB, step=number)
    for sequence, body in enumerate(bodies, 1):
        episode = types.Episode.FromString(body)
        named = {"episode_id": episode.id, "group": episode.group, "reward": episode.reward}
        manifest.entries.add(**named, sequence=sequence, digest=hashlib.sha256(body).hexdigest())
    return StepRequest(manifest, "0" * 64, bodies, 0.0)


def spec_of(model: Path) -> jobs.JobSpec:
    """GRPO at lag 1."""
    spec = jobs.JobSpec(name=JOB, model=jobs.ModelSource(path=str(model)), seed=1)
    spec.loop.steps, spec.loop.max_policy_lag = 100, 1
    spec.algorithm.policy_gradient.group_size = 8
    spec.algorithm.policy_gradient.optimizer.learning_rate = 1e-6
    return spec


if __name__ == "__main__":
    main()
