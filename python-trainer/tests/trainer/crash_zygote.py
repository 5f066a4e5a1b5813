# SPDX-License-Identifier: Apache-2.0
"""Trains two steps in child processes that die at a given call, then in one that does not.

Forked from one process that has imported everything, since importing PyTorch takes longer than all of the training.
Reads JSON lines {run, model, algorithm, module, path, when, calls}; answers each with {signal, found, replayed,
weights}.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from compute_device import DEVICE
from trainer_kit import UID, Sampler, group, grpo_spec, lora_spec, ppo_spec
from whetstone.events.v1 import events_pb2 as events

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder

SPECS = {"GRPO": grpo_spec, "PPO": ppo_spec, "LoRA": lora_spec}


def kill_at(module: str, path: str, when: str, calls: int) -> None:
    """Replaces a function by one that kills this process before or after its n-th call."""
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original, count = getattr(owner, name), 0

    def fatal(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == calls and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **named)
        if count == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, fatal)


def train(run_path: Path, model_path: Path, algorithm: str) -> dict[str, Any]:
    """From whatever is in the folder up to and including step 1, the way a controller asks for it."""
    settings = parse_settings(SPECS[algorithm](model_path, max_policy_lag=1))
    run = JobRun(settings, RunFolder(run_path, model_path), UID, LocalBackend(DEVICE, torch.float32))
    sampler, found, replayed = Sampler(model_path), run.step, False
    for step in (0, 1):
        episodes = group(sampler, step)
        entries = [events.BatchEntry(episode_id=e.id, group=e.group, reward=e.reward) for e in episodes]
        manifest = events.BatchManifest(job="toy", step=step, entries=entries)
        if step >= run.step:
            bodies = [episode.SerializeToString() for episode in episodes]
            run.train(StepRequest(manifest, f"digest-{step}", bodies, 0.0), lambda *_: None)
            run.commit()
        else:
            replayed = step == 0 or run.result_of(step, f"digest-{step}").replayed
    critic = [run.folder.checkpoint(2) / "critic.safetensors"] if run.settings.critic_path else []
    files = [*sorted(run.folder.weights(2).rglob("*.safetensors")), *critic]
    weights = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return {"found": found, "replayed": replayed, "weights": weights}


def in_child(work: Any) -> dict[str, Any]:
    """What `work` returns in a fork of this process, or the signal that ended it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.write(write_end, json.dumps(work()).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        result = answer.read()
    _, status = os.waitpid(child, 0)
    return json.loads(result) if result else {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None}


def main() -> None:
    torch.set_num_threads(1)
    # The first optimizer of a process imports half of PyTorch.
    torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])
    for line in sys.stdin:
        case = json.loads(line)
        given = Path(case["run"]), Path(case["model"]), case["algorithm"]

        def killed(case: dict[str, Any] = case, given: tuple[Path, Path, str] = given) -> Any:
            kill_at(case["module"], case["path"], case["when"], case["calls"])
            return train(*given)

        first = in_child(killed)
        again = in_child(lambda given=given: train(*given))
        print(json.dumps({**again, "signal": first.get("signal")}), flush=True)


if __name__ == "__main__":
    main()
