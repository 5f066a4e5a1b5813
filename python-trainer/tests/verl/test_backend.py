# SPDX-License-Identifier: Apache-2.0
"""The backend verl beside the backend local, on real Ray actors: the same numbers, and nothing lost with a rank."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import psutil
import pytest
from ranked_kit import BesideOneProcess
from ray_ranks import ranks_of
from test_gradients import GRPO, SETTINGS
from trainer_kit import UID, configure_request, free_port, grpo_spec, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_trainer.algorithms.custom import CustomAlgorithm
from whetstone_trainer.backends.verl.backend import VerlBackend
from whetstone_trainer.backends.verl.cluster import remove_left_behind
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.rules import with_defaults

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=[1, 2], ids=["one rank", "two ranks"])
def ranked(request: pytest.FixtureRequest) -> Iterator[VerlBackend]:
    backend = VerlBackend(request.param, hang_s=10)
    yield backend
    backend.close()


class TestVerl(BesideOneProcess): ...


def test_what_it_cannot_do_is_refused_by_its_path(ranked: VerlBackend, model_path: Path, tmp_path: Path) -> None:
    lora = replace(SETTINGS, lora=with_defaults(jobs.Lora()))
    with pytest.raises(TrainerError, match=r"^model\.lora: the backend verl trains all weights"):
        ranked.configure(lora, model_path, lambda _: None)
    own = replace(SETTINGS, algorithm=replace(GRPO, custom=CustomAlgorithm(None, None)))
    with pytest.raises(TrainerError, match=r"^algorithm\.policyGradient\.module: the backend verl does not run"):
        ranked.configure(own, model_path, lambda _: None)
    with pytest.raises(TrainerError, match=r"^model\.path: "):
        ranked.configure(SETTINGS, tmp_path, lambda _: None)


async def started_service(nats_url: str, model: Path, run: Path) -> subprocess.Popen[bytes]:
    """A trainer's process with a job on one rank."""
    port = free_port()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "whetstone_trainer", "--backend", "verl", "--nats", nats_url, "--port", str(port)]
    service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), 60)
        await until_configured(rpc.TrainerServiceStub(channel), configure_request(grpo_spec(model), run, 1, UID))
    return service


@pytest.mark.parametrize(
    ("how", "with_all"),
    [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGKILL, False)],
    ids=["ended", "ended-with-all-below-it", "killed"],
)
async def test_no_process_is_left_of_a_service(
    nats_url: str, model_path: Path, tmp_path: Path, how: signal.Signals, with_all: bool
) -> None:
    service = await started_service(nats_url, model_path, tmp_path)
    started = psutil.Process(service.pid).children(recursive=True)
    assert len(ranks_of(psutil.Process(service.pid))) == 1
    folders = list(Path(tempfile.gettempdir()).glob(f"whetstone-ray-{service.pid}-*"))
    assert len(folders) == 1
    service.send_signal(how)
    for one in started if with_all else []:
        one.send_signal(how)
    assert service.wait(20) == (0 if how == signal.SIGTERM else -how)
    # Ray's agents look for their raylet once a minute.
    _, alive = psutil.wait_procs(started, 120)
    assert alive == []
    if how == signal.SIGKILL:
        # As the next one does.
        remove_left_behind()
    assert not folders[0].exists()
