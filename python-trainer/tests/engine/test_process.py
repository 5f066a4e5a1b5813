# SPDX-License-Identifier: Apache-2.0
"""The process: start errors, bounded queue, stop on SIGTERM, other architectures and types."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from iep_target import SOURCE, Api, choice, generate_body, logprobs, start_engine

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("missing", "field"), [("config.json", "config.json"), ("model.safetensors", "model.safetensors")]
)
def test_an_unusable_folder_exits_2_with_one_line(
    models: tuple[Path, Path], tmp_path: Path, missing: str, field: str
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for file in models[0].iterdir():
        if file.name not in (missing, "manifest.json"):
            (folder / file.name).symlink_to(file)
    command = [sys.executable, "-m", "whetstone_engine", "--model", str(folder), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert json.loads(line)["error"]["field"] == field


def is_complete(body: Any) -> bool:
    return "choices" in body and len(choice(body)["token_ids"]) == 900


async def test_full_queue_answers_429_and_sigterm_does_not_wait_for_them(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    options = ("--max-num-seqs", "2", "--max-waiting", "3", "--dtype", "bfloat16", "--served-model-name", "policy")
    with start_engine(models[0], tmp_path / "log", *options) as (url, process):
        async with aiohttp.ClientSession() as session:
            api = Api(session, url)
            reply = await api.generate([65, 66], max_tokens=3)
            assert len(logprobs(reply)) == len(choice(reply)["token_ids"]) == 3
            await api.post("/pause")
            body = generate_body([65, 66], None, max_tokens=900)
            queued = [asyncio.create_task(api.post("/inference/v1/generate", body)) for _ in range(3)]
            await asyncio.sleep(0.3)
            status, refused = await api.post("/inference/v1/generate", body)
            assert (status, refused["error"]["code"]) == (429, 429)
            await api.post("/resume")
            await asyncio.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 0
            replies = await asyncio.gather(*queued, return_exceptions=True)
            assert not [reply for reply in replies if isinstance(reply, tuple) and is_complete(reply[1])], replies
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert events[-1] == "stopped"
    assert "request_failed" not in events
