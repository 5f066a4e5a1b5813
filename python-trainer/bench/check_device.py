# SPDX-License-Identifier: Apache-2.0
"""Engines and trainers on one device, with a random model: log-probabilities, speed, memory. One JSON line.

An engine samples; trainers compute the log-probabilities of what it sampled, and train on it: by one process, by one
for each GPU (FSDP2), and as answers to a prompt that eight of them share. Our engine then switches to what a trainer
has published. Each part is a process of its own, so that its memory is its own. MFU is 6 times parameters times tokens
a second, of the device's bfloat16 peak (PaLM, arXiv 2204.02311, appendix B, without attention).

Run: `deploy/gpu/check.sh`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
ROOT = BENCH.parents[1]
sys.path[:0] = [str(BENCH.parent / "src"), str(ROOT / "proto" / "gen" / "python"), str(BENCH)]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from load import generate  # noqa: E402
from trainer_step import spec_of  # noqa: E402
from whetstone.types.v1 import types_pb2 as types  # noqa: E402

from whetstone_models.init import init_model  # noqa: E402
from whetstone_trainer.backends.protocol import PolicyVersion, StepBatch, TrainerBackend  # noqa: E402
from whetstone_trainer.batch.episode_rows import episode_rows  # noqa: E402
from whetstone_trainer.batch.rows import Row  # noqa: E402
from whetstone_trainer.contract.settings import parse_settings  # noqa: E402

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "0.5b": {
        **{"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 4},
        **{"intermediate_size": 4096, "vocab_size": 32_000, "max_position_embeddings": 4096},
    },
    "1.5b": {
        **{"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2},
        **{"intermediate_size": 8960, "vocab_size": 151_936, "max_position_embeddings": 4096},
    },
}
# Dense bfloat16, in FLOP/s, as NVIDIA's data sheets have it.
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L4": 121e12, "L40S": 362e12, "B200": 2250e12}
PROMPT_TOKENS = 128
# Answers to each prompt of the rows that share them.
GROUP = 8
STEPS = 3
# Of one engine to listen, with its kernels made.
START_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=tuple(SHAPES), default="0.5b")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--published", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.part:
        print(json.dumps(_trained(options)))
        return
    dtype = "bfloat16" if options.device == "cuda" else "float32"
    report: dict[str, Any] = {"bench": "device", "device": _name(options.device), "dtype": dtype}
    with tempfile.TemporaryDirectory() as root:
        options.model, options.samples = Path(root) / "model", Path(root) / "samples"
        init_model(options.model, "tiny", 1, **SHAPES[options.preset])
        options.published = Path(root) / "published"
        report["engine"] = _sampled(options, _own_engine(options, dtype))
        report["local"] = _part("local", sys.executable, options)
        report["sharded"] = _part("sharded", sys.executable, options)
        report["shared_prompts"] = _part("shared", sys.executable, options)
        report["switch"] = _switched(options, _own_engine(options, dtype))
        first, options.published = options.published, Path(root) / "again"
        again = _part("local", sys.executable, options)
        report["same_weights_again"] = "error" not in again and _digest(first) == _digest(options.published)
        verl = ROOT / ".whetstone/verl/bin/python"
        report["verl"] = _part("verl", str(verl), options) if verl.exists() else "not there: make setup-verl"
        vllm = Path(os.environ.get("WHETSTONE_VLLM") or "nowhere") / "bin/vllm"
        report["vllm"] = _vllm_part(options, vllm, dtype) if vllm.exists() else "not there: WHETSTONE_VLLM"
    print(json.dumps(report))


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def _own_engine(options: argparse.Namespace, dtype: str) -> list[str]:
    command = [sys.executable, "-m", "whetstone_engine", "--model", str(options.model), "--port", "PORT"]
    return [*command, "--device", options.device, "--dtype", dtype, "--max-num-seqs", str(options.requests)]


def _vllm_part(options: argparse.Namespace, vllm: Path, dtype: str) -> dict[str, Any]:
    """vLLM's samples, and how far the trainer's log-probabilities are from its own."""
    options.samples = options.samples.with_name("vllm-samples")
    command = [str(vllm), "serve", str(options.model), "--host=127.0.0.1", "--port=PORT", f"--dtype={dtype}"]
    command += ["--served-model-name=policy", "--generation-config=vllm", "--logprobs-mode=processed_logprobs"]
    engine = _sampled(options, [*command, "--enable-scale-out"])
    return {**engine, "trainer": _part("local", sys.executable, options)}


@contextlib.contextmanager
def _served(command: list[str]) -> Iterator[tuple[int, int]]:
    """(port, process id) of an engine that answers. It ends with its group: vLLM is several processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    source = [*sys.path[:2], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, source)),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    words = [word.replace("PORT", str(port)) for word in command]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            until = time.monotonic() + START_S
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    sys.exit(f"{words[0]} does not answer: {log.read().decode(errors='replace')[-2000:]}")
                time.sleep(0.5)
            yield port, process.pid
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            process.wait(60)


def _sampled(options: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """Samples at temperature 1 into the file `samples`; output tokens a second of the second of two rounds."""
    rng = random.Random(1)
    prompts = [[rng.randrange(256) for _ in range(PROMPT_TOKENS)] for _ in range(options.requests)]
    sampling = {"temperature": 1.0, "max_tokens": options.tokens, "ignore_eos": True, "logprobs": 0}
    bodies = [{"token_ids": prompt, "sampling_params": sampling, "cache_salt": "0"} for prompt in prompts]
    with _served(command) as (port, pid):
        asyncio.run(generate(port, pid, bodies, len(bodies)))
        result = asyncio.run(generate(port, pid, bodies, len(bodies)))
        memory = _memory_mib()
    choices = [reply["choices"][0] for reply in result.replies]
    logprobs = [[entry["logprob"] for entry in choice["logprobs"]["content"]] for choice in choices]
    answers = [choice["token_ids"] for choice in choices]
    options.samples.write_bytes(pickle.dumps((prompts, answers, logprobs)))
    tokens = options.requests * options.tokens
    measured = {
        "requests": options.requests,
        "context": PROMPT_TOKENS + options.tokens,
        "server_cpu_s": result.server_cpu_s,
    }
    return {"tokens_per_s": round(tokens / result.wall_s, 1), **measured, "device_memory_mib": memory}


def _switched(options: argparse.Namespace, command: list[str]) -> dict[str, Any]:
    """Seconds in which an engine reads published weights while it serves others, and of the pause that swaps them."""
    named = {"weights_path": str(options.published)}
    swap = {"method": "reload_weights", "kwargs": named}
    pause = "/pause?mode=abort&clear_cache=true"
    with _served(command) as (port, _):
        stage_s = _post_s(port, ("/stage_weights", named))
        pause_s = _post_s(port, (pause, None), ("/collective_rpc", swap), ("/resume", None))
    size = sum(file.stat().st_size for file in options.published.iterdir())
    return {
        "gib": round(size / 2**30, 3),
        "stage_s": stage_s,
        "gib_per_s": round(size / 2**30 / stage_s, 2),
        "pause_s": pause_s,
    }


def _digest(folder: Path) -> str:
    """Of the weights in a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def _post_s(port: int, *requests: tuple[str, dict[str, Any] | None]) -> float:
    started = time.perf_counter()
    for path, body in requests:
        data, head = b"" if body is None else json.dumps(body).encode(), {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, head, method="POST")
        urllib.request.urlopen(request, timeout=START_S).close()
    return round(time.perf_counter() - started, 4)


def _memory_mib() -> int | None:
    """Of the device, in use by all of its processes; None without nvidia-smi."""
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(ask, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _part(part: str, python: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [python, __file__, "--part", part, "--device", options.device, "--preset", options.preset]
    for name in ("samples", "model", "published"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {"error": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def _trained(options: argparse.Namespace) -> dict[str, Any]:
    prompts, answers, sampled = pickle.loads(options.samples.read_bytes())
    if options.part == "shared":
        prompts = [prompts[index // GROUP * GROUP] for index in range(len(prompts))]
    rows = [_row(index, *one) for index, one in enumerate(zip(prompts, answers, sampled, strict=True))]
    backend, settings = _backend(options), parse_settings(spec_of(options.model))
    try:
        loaded = backend.configure(settings, options.model, lambda _: None)
        found = backend.log_probabilities(rows, PolicyVersion(0, options.model), lambda _: None)
        assert found is not None
        apart = np.abs(np.concatenate(found) - np.concatenate([row.logprobs for row in rows]))
        _synchronize(options.device)
        seconds = []
        for step in range(STEPS):
            started = time.perf_counter()
            backend.step(StepBatch(step, rows, settings), lambda _: None)
            _synchronize(options.device)
            seconds.append(time.perf_counter() - started)
        memory = _memory_mib()
        started = time.perf_counter()
        if options.part == "local":
            backend.publish(options.published, STEPS)
        publish_s = time.perf_counter() - started
    finally:
        backend.close()
    speed = sum(len(row.token_ids) for row in rows) / min(seconds[1:])
    peak = next((peak for name, peak in PEAKS.items() if name in _name(options.device)), None)
    of_engine = {"logprob_apart_mean": float(apart.mean()), "logprob_apart_max": float(apart.max())}
    return {
        "parameters": loaded.parameters,
        # Answers to prompts that are not theirs were not sampled so.
        **({} if options.part == "shared" else of_engine),
        **{"tokens_per_s": round(speed, 1), "step_s": [round(one, 3) for one in seconds], "device_memory_mib": memory},
        "mfu": round(6 * loaded.parameters * speed / peak, 4) if peak else None,
        **({"publish_s": round(publish_s, 3)} if options.part == "local" else {}),
    }


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _backend(options: argparse.Namespace) -> TrainerBackend:
    compute = torch.bfloat16 if options.device == "cuda" else torch.float32
    if options.part == "sharded":
        from whetstone_trainer.backends.local.ranked import ProcessBackend

        return ProcessBackend(max(1, torch.cuda.device_count()), torch.device(options.device), compute, hang_s=300)
    if options.part == "verl":
        from whetstone_trainer.backends.verl.backend import VerlBackend

        return VerlBackend(1, compute, 300)
    from whetstone_trainer.backends.local.backend import LocalBackend

    return LocalBackend(torch.device(options.device), compute)


def _row(index: int, prompt: list[int], answer: list[int], logprobs: list[float]) -> Row:
    """Every other one is to become likelier, so that there is a gradient."""
    episode = types.Episode(id=f"bench/g0/s{index}", job="bench", group="g0", sample=index)
    span = types.VersionSpan(start=0, end=len(answer))
    given = {"prompt_ids": prompt, "completion_ids": answer, "logprobs": logprobs}
    episode.calls.append(types.ModelCall(id="c0", version_spans=[span], **given))
    (row,) = episode_rows(episode, index, 0, first_trajectory=index)
    advantages_K = np.full(len(answer), 1.0 if index % 2 else -1.0, dtype=np.float32)
    return replace(row, advantages=advantages_K, old_logprobs=row.logprobs)


if __name__ == "__main__":
    main()
