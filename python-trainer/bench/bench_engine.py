# SPDX-License-Identifier: Apache-2.0
"""Throughput of the embedded engine over real HTTP beside transformers' `generate`, one JSON line on stdout.

Same weights, prompts, lengths, batch size and thread count in the same run; greedy, and no end token. Then the workload
that the quick start consists of: hundreds of concurrent requests with short prompts and one to three output tokens. At
last contexts of 1k, 4k and 16k tokens, and what a long prompt does to other streams. With `--vllm` the larger model is
served by vLLM's CPU build, too: the same requests over the same wire, in turn.

Run: `python python-trainer/bench/bench_engine.py [--quick] [--part short|long] [--vllm .whetstone/vllm]`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(Path(__file__).parent)]

from engine_contexts import CONTEXTS, MAX_LEN, OPTIONS, STREAMS, at_context, beside_a_long_prompt  # noqa: E402
from load import generate  # noqa: E402
from vllm_server import vllm_served  # noqa: E402

from whetstone_models.init import init_model  # noqa: E402

CONCURRENCIES = (1, 16, 64)
PROMPT_TOKENS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="the tiny model only")
    parser.add_argument("--part", choices=("short", "long"), help="short contexts only, or long ones")
    parser.add_argument("--vllm", type=Path, metavar="FOLDER", help="an environment with vLLM, of `make setup-vllm`")
    options = parser.parse_args()
    report: dict[str, Any] = {"bench": "engine", "threads": options.threads, "cpus": os.cpu_count()}
    with tempfile.TemporaryDirectory() as root:
        for preset, output_tokens, rounds in (("tiny", 64, 6), ("llama-135m", 48, 2)):
            if options.part == "long" or (preset != "tiny" and options.quick):
                continue
            folder = Path(root) / preset
            init_model(folder, preset)
            with served(folder, options.threads) as (port, pid):
                report[preset] = _compare(folder, port, pid, output_tokens, options.threads, rounds)
                if preset == "tiny":
                    report["short_requests"] = _short(port, pid)
                # Of the tiny model's heads vLLM's attention on a CPU knows nothing.
                elif options.vllm:
                    with vllm_served(options.vllm, folder, options.threads, max(CONCURRENCIES)) as (other, other_pid):
                        report["vllm"] = _beside_vllm((port, pid), (other, other_pid), output_tokens, rounds)
        if options.part != "short":
            folder = Path(root) / "long"
            init_model(folder, "tiny", max_position_embeddings=MAX_LEN)
            # Streams, the long prompt and the short one.
            with served(folder, options.threads, *OPTIONS, str(STREAMS + 2)) as (port, pid):
                report["beside_a_long_prompt"] = beside_a_long_prompt(port, pid)
            report["contexts"] = {}
            for length, count in CONTEXTS.items():
                with served(folder, options.threads, *OPTIONS, str(count)) as (port, pid):
                    found = at_context(folder, port, pid, options.threads, length, count)
                    report["contexts"][str(length)] = found
    report["load_average"] = round(os.getloadavg()[0], 2)
    print(json.dumps(report))


@contextlib.contextmanager
def served(folder: Path, threads: int, *more: str) -> Iterator[tuple[int, int]]:
    """A served engine: (port, process id)."""
    command = [
        sys.executable,
        "-m",
        "whetstone_engine",
        "--model",
        str(folder),
        "--port",
        "0",
        "--threads",
        str(threads),
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen([*command, "--device", "cpu"], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        lines = (json.loads(line) for line in process.stderr)
        yield next(line["port"] for line in lines if line.get("event") == "listening"), process.pid
    finally:
        process.terminate()
        process.wait()


def _compare(folder: Path, port: int, pid: int, output_tokens: int, threads: int, rounds: int) -> dict[str, Any]:
    """Per concurrency: output tokens per second (best round), CPU ms per token (all rounds), and theirs over ours.

    `cpu_ratio` is what to trust on a shared machine: neighbours take wall time from both, but not CPU time.
    """
    prompts = _prompts(max(CONCURRENCIES), PROMPT_TOKENS)
    baseline = _Transformers(folder, threads)
    result: dict[str, Any] = {"output_tokens": output_tokens, "prompt_tokens": PROMPT_TOKENS}
    for size in CONCURRENCIES:
        ours, theirs = [], []
        for _ in range(rounds):  # alternating, so that a noisy neighbour hits both
            ours.append(_engine_batch(port, pid, prompts[:size], output_tokens))
            theirs.append(baseline.batch(prompts[:size], output_tokens))
        tokens = size * output_tokens
        result[f"concurrency_{size}"] = {
            "engine_tokens_per_s": round(tokens / min(wall for wall, _ in ours), 1),
            "transformers_tokens_per_s": round(tokens / min(wall for wall, _ in theirs), 1),
            "engine_cpu_ms_per_token": round(1e3 * sum(cpu for _, cpu in ours) / tokens / rounds, 4),
            "wall_ratio": round(min(wall for wall, _ in theirs) / min(wall for wall, _ in ours), 2),
            "cpu_ratio": round(sum(cpu for _, cpu in theirs) / sum(cpu for _, cpu in ours), 2),
        }
    speed = [result[f"concurrency_{size}"]["engine_tokens_per_s"] for size in (1, 64)]
    result["batch_64_over_1"] = round(speed[1] / speed[0], 1)
    return result


def _beside_vllm(ours: tuple[int, int], theirs: tuple[int, int], output_tokens: int, rounds: int) -> dict[str, Any]:
    """Per concurrency: output tokens per second of both (best round), and ours over theirs."""
    prompts = _prompts(max(CONCURRENCIES), PROMPT_TOKENS)
    _engine_batch(*theirs, prompts, output_tokens)  # It compiles at its first call.
    result: dict[str, Any] = {"output_tokens": output_tokens, "prompt_tokens": PROMPT_TOKENS}
    for size in CONCURRENCIES:
        runs = [
            [_engine_batch(*server, prompts[:size], output_tokens) for server in (ours, theirs)] for _ in range(rounds)
        ]
        tokens = size * output_tokens
        wall, other_wall = (min(run[which][0] for run in runs) for which in (0, 1))
        cpu, other_cpu = (sum(run[which][1] for run in runs) for which in (0, 1))
        result[f"concurrency_{size}"] = {
            "engine_tokens_per_s": round(tokens / wall, 1),
            "vllm_tokens_per_s": round(tokens / other_wall, 1),
            "wall_ratio": round(other_wall / wall, 2),
            "cpu_ratio": round(other_cpu / cpu, 2),
        }
    return result


def _engine_batch(port: int, pid: int, prompts: list[list[int]], output_tokens: int) -> tuple[float, float]:
    """Wall and CPU seconds for one batch. A new salt each time: transformers has no prefix cache either."""
    sampling = {"temperature": 0, "max_tokens": output_tokens, "ignore_eos": True}
    salt = str(random.getrandbits(60))
    bodies = [{"token_ids": prompt, "cache_salt": salt, "sampling_params": sampling} for prompt in prompts]
    result = asyncio.run(generate(port, pid, bodies, len(bodies)))
    return result.wall_s, result.server_cpu_s


class _Transformers:
    """The baseline: `generate` with its key-value cache, in this process."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()

        torch.set_num_threads(threads)
        self._torch: Any = torch
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._model.generation_config.eos_token_id = None
        self.batch([[65] * PROMPT_TOKENS], 2)

    def batch(self, prompts: list[list[int]], output_tokens: int) -> tuple[float, float]:
        """Wall and CPU seconds for one batch."""
        ids = self._torch.tensor(prompts)
        wall, cpu = time.perf_counter(), time.process_time()
        with self._torch.inference_mode():
            mask = self._torch.ones_like(ids)
            self._model.generate(
                ids, attention_mask=mask, max_new_tokens=output_tokens, do_sample=False, pad_token_id=0
            )
        return time.perf_counter() - wall, time.process_time() - cpu


def _short(port: int, pid: int, count: int = 4096, concurrency: int = 256) -> dict[str, Any]:
    """Requests per second and CPU per request; `fresh` prompts are all different, `groups` come eight alike."""
    result: dict[str, Any] = {"requests": count, "concurrency": concurrency}
    for name, alike in (("fresh", 1), ("groups", 8)):
        runs = [asyncio.run(generate(port, pid, _short_bodies(count, alike), concurrency)) for _ in range(3)]
        result[name] = {
            "requests_per_s": round(count / min(run.wall_s for run in runs)),
            "server_cpu_ms_per_request": round(1e3 * sum(run.server_cpu_s for run in runs) / count / len(runs), 3),
        }
    return result


def _short_bodies(count: int, alike: int) -> list[dict[str, Any]]:
    prompts = [prompt for length in _lengths(count // alike) for prompt in [_prompts(1, length)[0]] * alike]
    return [
        {
            "model": "policy",
            "token_ids": prompt,
            "sampling_params": {
                "temperature": 1.0,
                "max_tokens": random.choice((1, 2, 2, 3)),
                "logprobs": 0,
                "seed": random.getrandbits(31),
            },
        }
        for prompt in prompts
    ]


def _lengths(count: int) -> list[int]:
    return [random.randint(25, 40) for _ in range(count)]


def _prompts(count: int, length: int) -> list[list[int]]:
    return [[256, *random.choices(range(256), k=length - 2), 257] for _ in range(count)]


if __name__ == "__main__":
    main()
