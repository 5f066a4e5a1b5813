# SPDX-License-Identifier: Apache-2.0
"""What a whole TrainStep costs beside TRL's GRPOTrainer, in one run. One JSON line.

`ours_of_trl`: beside its update alone. `ours_of_trl_with_vllm`: beside its update and the forward pass for old
log-probabilities that it makes when vLLM samples. Neither writes weights or a checkpoint; ours does. TRL's default
computes activations again in the pass back, as `ours_recomputed` does and `ours` does not.

Ours: log-probability check, anchor, update, weights and checkpoint written; at lag 0 and at lag 1. Same models, same
sequences, one thread, every measurement in a process of its own. `--trl`: a Python that has requirements-trl.txt;
without it only ours is measured. `make bench-trainer` prepares one. `--modes trl` leaves out TRL with its activations
stored, which holds much more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Arguments of trainer_step.py: activations kept, which is the default, and computed again.
OURS = {"ours": (), "ours_recomputed": ("--recompute",)}
# Arguments of trl_update.py.
MODES = {"trl": (), "trl_stored": ("--stored",)}
PATHS = [str(HERE.parent / "src"), str(HERE.parents[1] / "proto" / "gen" / "python")]
sys.path[:0] = PATHS

from trainer_workloads import LARGE, SMALL, Sequence, frozen_lake, mixed, sampled, shared, to_episodes  # noqa: E402

from whetstone_models.init import init_model  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trl", type=os.path.abspath, help="a Python with TRL")
    parser.add_argument("--quick", action="store_true", help="the small model only (about a minute)")
    parser.add_argument("--only", help="workloads whose name contains this")
    parser.add_argument("--modes", default=",".join(MODES), help="of TRL: its default, and with activations stored")
    options = parser.parse_args()
    report: dict[str, Any] = {"bench": "trainer", "cpus": os.cpu_count()}
    rng = random.Random(1)
    workloads = {
        "0.4M frozen lake": (False, frozen_lake(512, rng)),
        "0.4M mixed": (False, mixed(64, rng)),
        "0.4M shared": (False, shared(8, rng)),
        "103M mixed": (True, mixed(8, rng)),
        "103M shared": (True, shared(8, rng)),
    }
    for name, (large, sequences) in workloads.items():
        if not (large and options.quick) and (options.only or "") in name:
            with tempfile.TemporaryDirectory() as scratch:
                given = (Path(scratch), LARGE if large else SMALL, sequences, options.trl)
                report[name] = _compare(*given, options.modes.split(","))
            print(name, json.dumps(report[name]), file=sys.stderr)
    report["load_average"] = round(os.getloadavg()[0], 2)
    print(json.dumps(report))


def _compare(
    scratch: Path, sizes: dict[str, Any], sequences: list[Sequence], trl: str | None, modes: list[str]
) -> dict[str, Any]:
    model, tokens = scratch / "model", sum(len(one.prompt) + len(one.answer) for one in sequences)
    init_model(model, seed=1, **sizes)
    episodes = to_episodes(sampled(sequences, model))
    (scratch / "episodes").write_text("".join(f"{one.SerializeToString().hex()}\n" for one in episodes))
    (scratch / "sequences").write_text("".join(f"{json.dumps([one.prompt, one.answer])}\n" for one in sequences))
    found: dict[str, Any] = {"sequences": len(sequences), "tokens": tokens}
    for name, option in OURS.items():
        given = (model, scratch / "episodes", scratch / name, *option)
        found[name] = _measured(sys.executable, "trainer_step.py", *given)
        for lag in ("lag_0", "lag_1"):
            found[name][lag]["cpu_s_per_1000_tokens"] = round(found[name][lag]["cpu_s"] / tokens * 1000, 3)
    if trl is not None:
        for name in modes:
            given = (model, scratch / "sequences", scratch / "trl", *MODES[name])
            found[name] = theirs = _measured(trl, "trl_update.py", *given)
            theirs["cpu_s_per_1000_tokens"] = round(theirs["cpu_s"] / tokens * 1000, 3)
            for own in OURS:
                found[f"{own}_of_{name}"] = _shares(found[own], theirs, theirs["cpu_s"])
            with_vllm = theirs["cpu_s"] + theirs["old_logprobs_cpu_s"]
            found[f"ours_of_{name}_with_vllm"] = _shares(found["ours"], theirs, with_vllm)
    return found


def _shares(ours: dict[str, Any], theirs: dict[str, Any], cpu_s: float) -> dict[str, float]:
    memory = round(ours["memory_mib"] / theirs["memory_mib"], 3)
    return {**{lag: round(ours[lag]["cpu_s"] / cpu_s, 3) for lag in ("lag_0", "lag_1")}, "memory": memory}


def _measured(python: str, script: str, *arguments: Path | str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(PATHS)}
    done = subprocess.run([python, HERE / script, *arguments], env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
