# SPDX-License-Identifier: Apache-2.0
"""What a job of the backend `local` holds while it trains and while it goes back to a checkpoint, and how long weights
take to be ready. One JSON line for GRPO and one for PPO, whose checkpoint holds a critic too.

Two steps at lag 1, the second with tokens of the version before. Memory is above that of the empty process; in bytes
for each weight it is `memory / weights * 4`, since weights are float32.

Run: `python python-trainer/bench/bench_memory.py` (a minute; 6 GiB of memory).
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(SOURCE.parents[1] / "proto/gen/python"), str(Path(__file__).parent)]

import torch  # noqa: E402
from process_memory import forget_peak, load_libraries, peak_mib, resident_mib  # noqa: E402
from trainer_step import request_of, spec_of  # noqa: E402
from trainer_workloads import LARGE, Sequence, sampled, to_episodes  # noqa: E402
from whetstone.jobs.v1 import jobs_pb2 as jobs  # noqa: E402
from whetstone.types.v1 import types_pb2 as types  # noqa: E402

from whetstone_models.init import init_model  # noqa: E402
from whetstone_trainer.backends.local.backend import LocalBackend  # noqa: E402
from whetstone_trainer.contract.settings import parse_settings  # noqa: E402
from whetstone_trainer.service.run import JobRun, untold  # noqa: E402
from whetstone_trainer.weights.run_folder import RunFolder  # noqa: E402

ALGORITHMS = ("grpo", "ppo")


def main() -> None:
    if len(sys.argv) > 2:
        print(json.dumps(measured(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
        return
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        init_model(model, "tiny", 1, **LARGE)
        for algorithm in ALGORITHMS:
            command = [sys.executable, __file__, str(model), str(Path(scratch) / algorithm), algorithm]
            subprocess.run(command, check=True)


def measured(model: Path, root: Path, algorithm: str) -> dict[str, object]:
    torch.set_num_threads(1)
    rng = random.Random(1)
    sequences = [Sequence(i, _ids(40, rng), _ids(60, rng)) for i in range(8)]
    bodies = [episode.SerializeToString() for episode in to_episodes(sampled(sequences, model))]
    load_libraries()
    gc.collect()
    empty = resident_mib()
    settings = parse_settings(_spec(model, algorithm))
    run = JobRun(settings, RunFolder(root, model), "u", LocalBackend(torch.device("cpu")))
    results, checkpoint_s = [], 0.0
    for number in (0, 1):
        if number == 1:
            forget_peak()
        results.append(run.train(request_of(number, bodies), untold))
        checkpoint_s = _seconds(run.commit)
    steady = peak_mib() - empty
    forget_peak()
    restore_s = _seconds(run.recover)
    restored = peak_mib() - empty
    folder = run.folder.checkpoint(2)
    return {
        **{"bench": "memory", "algorithm": algorithm, "weights_mib": _mib(run.folder.weights(2))},
        **{"checkpoint_mib": _mib(folder), "steady_mib": round(steady), "restore_mib": round(restored)},
        **{"restore_of_steady": round(restored / steady, 3), "ready_s": round(results[1].metrics["time/save"], 3)},
        **{"checkpoint_s": round(checkpoint_s, 3), "restore_s": round(restore_s, 3), "rows": results[1].rows},
        "load_average": os.getloadavg()[0],
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _mib(folder: Path) -> int:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20)


def _ids(count: int, rng: random.Random) -> list[int]:
    return [rng.randrange(256) for _ in range(count)]


def _spec(model: Path, algorithm: str) -> jobs.JobSpec:
    spec = spec_of(model)
    options = spec.algorithm.policy_gradient
    options.batching.micro_batch_tokens = 256
    if algorithm == "ppo":
        options.advantage, options.critic.model = types.ADVANTAGE_ESTIMATOR_GAE, str(model)
    return spec


if __name__ == "__main__":
    main()
