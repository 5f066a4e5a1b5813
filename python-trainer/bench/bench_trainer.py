# SPDX-License-Identifier: Apache-2.0
"""What a training step costs, part by part, on episodes shaped like FrozenLake's. One JSON line.

PYTHONPATH=src:../proto/gen/python OMP_NUM_THREADS=1 python bench/bench_trainer.py [--nats URL] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import hashlib
import json
import pstats
import random
import tempfile
from pathlib import Path

import nats
import numpy as np
import torch
from nats.js.api import StreamConfig
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model
from whetstone_models.init import init_model
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.batch.ingest import EpisodeReader
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder

JOB, GROUPS, SAMPLES, TURNS = "bench", 64, 8, 5
ACTIONS = [85, 68, 76, 82]
PADDING = "x" * 1500


def prompt_of(cells: list[int], position: int) -> list[int]:
    board = [80 if i == position else cell for i, cell in enumerate(cells)]
    rows = [token for r in range(4) for token in [*board[4 * r : 4 * r + 4], 10]]
    return [256, *rows[:19], 257]


def play(model: torch.nn.Module, group: int, sample: int, cells: list[int], rng: random.Random) -> types.Episode:
    episode = types.Episode(id=f"{JOB}/g{group}/s{sample}", job=JOB, group=f"g{group}", sample=sample)
    episode.purpose, episode.reward, position = types.PURPOSE_TRAIN, float(rng.random() < 0.4), 5
    for turn in range(TURNS):
        prompt, action = prompt_of(cells, position), rng.randrange(4)
        completion = [ACTIONS[action], 260]
        with torch.no_grad():
            table = model(torch.tensor([[*prompt, *completion]])).log_softmax(-1)[0]
        span = types.VersionSpan(start=0, end=2)
        episode.calls.append(
            types.ModelCall(
                id=f"c{turn}",
                prompt_ids=prompt,
                completion_ids=completion,
                logprobs=[float(table[20, completion[0]]), float(table[21, completion[1]])],
                version_spans=[span],
                text="U",
            )
        )
        position = min(15, max(0, position + (-4, 4, -1, 1)[action]))
    episode.trajectories.add(final_observation=PADDING)
    return episode


def make_batch(folder: Path) -> list[types.Episode]:
    model, rng, episodes = load_model(folder), random.Random(1), []
    for group in range(GROUPS):
        cells = [rng.choice([95, 95, 95, 79]) for _ in range(16)]
        episodes += [play(model, group, sample, cells, rng) for sample in range(SAMPLES)]
    return episodes


def spec_of(folder: Path, mini_batches: int) -> jobs.JobSpec:
    spec = jobs.JobSpec(name=JOB, model=jobs.ModelSource(path=str(folder)), seed=1)
    spec.loop.steps, spec.loop.max_policy_lag = 100, 1
    grpo = spec.algorithm.policy_gradient
    grpo.group_size, grpo.entropy_coefficient, grpo.clip_high = SAMPLES, 0.005, 0.28
    grpo.optimizer.learning_rate, grpo.batching.mini_batches = 1e-3, mini_batches
    return spec


async def read_bodies(
    url: str, episodes: list[types.Episode]
) -> tuple[events.BatchManifest, list[bytes | TrainerError], float]:
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name=f"WS_EPISODE_{JOB}", subjects=[f"ws.{JOB}.episode.>"], allow_direct=True))
    manifest = events.BatchManifest(job=JOB)
    for episode in episodes:
        body = episode.SerializeToString()
        headers = {"Whetstone-Summary": "s" * 300, "Nats-Msg-Id": episode.id}
        ack = await stream.publish(f"ws.{JOB}.episode.{episode.group}.{episode.sample}", body, headers=headers)
        digest = hashlib.sha256(body).hexdigest()
        fields = {"episode_id": episode.id, "group": episode.group, "sequence": ack.seq, "digest": digest}
        manifest.entries.add(**fields, reward=episode.reward)
    reader, seconds, bodies = EpisodeReader(client), [], []
    for _ in range(3):
        started = asyncio.get_running_loop().time()
        bodies = await reader.read(JOB, manifest.entries, lambda _: None)
        seconds.append(asyncio.get_running_loop().time() - started)
    await stream.delete_stream(f"WS_EPISODE_{JOB}")
    await client.close()
    return manifest, bodies, min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nats", default="nats://127.0.0.1:4222")
    parser.add_argument("--mini-batches", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        init_model(folder, seed=1)
        manifest, bodies, read_s = asyncio.run(read_bodies(arguments.nats, make_batch(folder)))
        settings = parse_settings(spec_of(folder, arguments.mini_batches))
        run = JobRun(
            settings, RunFolder(Path(scratch) / "run", folder), "u", LocalBackend(torch.device("cpu"), torch.float32)
        )
        profile = cProfile.Profile()
        results = []
        for step in range(3):
            manifest.step = step
            if arguments.profile and step == 2:
                profile.enable()
            results.append(run.train(StepRequest(manifest, "0" * 64, bodies, read_s), lambda *_: None))
        profile.disable()
        metrics = dict(results[-1].metrics)
        # Version 0 sampled the batch: only steps 0 and 1 can check it.
        metrics["time/check"] = min(result.metrics["time/check"] for result in results[:2])
        lengths = [len(body) for body in bodies if isinstance(body, bytes)]
        sizes = {"episodes": len(bodies), "body_bytes": int(np.mean(lengths))}
        milliseconds = {
            name[5:] + "_ms": round(value * 1e3, 1) for name, value in metrics.items() if name[:5] == "time/"
        }
        names = ("rows", "rows_trained", "optimizer_steps", "tokens_per_second")
        print(json.dumps({**sizes, **{name: round(metrics[name]) for name in names}, **milliseconds}))
        if arguments.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
