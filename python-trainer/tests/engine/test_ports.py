# SPDX-License-Identifier: Apache-2.0
"""Two ports: with --control-port, whoever reaches the data port can sample, but can steer nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import aiohttp
import pytest
from adapter_kit import write_adapter
from iep_target import Api, choice, start_engine

from whetstone_engine.server import DATA_PATHS, routes

STEERING = {
    ("POST", "/pause"): None,
    ("POST", "/resume"): None,
    ("GET", "/is_paused"): None,
    ("POST", "/abort_requests"): {},
    ("POST", "/inference/v1/abort_requests"): {"request_ids": []},
    ("POST", "/sleep"): None,
    ("POST", "/wake_up"): None,
    ("GET", "/is_sleeping"): None,
    ("POST", "/reset_prefix_cache"): None,
    ("GET", "/weight_info"): None,
    ("POST", "/update_weight_version"): {"new_version": "default"},
    ("GET", "/get_world_size"): None,
    ("POST", "/stage_weights"): {"weights_path": "MODEL"},
    ("POST", "/collective_rpc"): {"method": "reload_weights", "kwargs": {"weights_path": "MODEL"}},
    # In this order: the second needs what the first loads, and other weights would end it.
    ("POST", "/v1/load_lora_adapter"): {"lora_name": "lab", "lora_path": "ADAPTER"},
    ("POST", "/v1/unload_lora_adapter"): {"lora_name": "lab"},
    ("GET", "/server_info"): None,
}
DATA = {
    ("POST", "/inference/v1/generate"): {"token_ids": [65], "sampling_params": {"max_tokens": 1}},
    ("POST", "/v1/completions"): {"prompt": [65], "max_tokens": 1},
    ("POST", "/tokenize"): {"prompt": "a"},
    ("POST", "/detokenize"): {"tokens": [65]},
    ("GET", "/v1/models"): None,
    ("GET", "/health"): None,
    ("GET", "/ping"): None,
    ("GET", "/version"): None,
    ("GET", "/load"): None,
    ("GET", "/metrics"): None,
}


@dataclass(frozen=True)
class Ports:
    """Base URLs of one engine."""

    data: str
    control: str
    model: Path
    adapter: Path


@pytest.fixture(scope="module")
def ports(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    log = tmp_path_factory.mktemp("log") / "engine.log"
    adapter = write_adapter(models[0], log.parent / "adapter", 1)
    with start_engine(models[0], log, "--control-port", "0") as (url, _):
        line = next(line for line in log.read_text().splitlines() if '"listening"' in line)
        yield Ports(url, f"http://127.0.0.1:{json.loads(line)['control_port']}", models[0], adapter)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def call(api: Api, route: tuple[str, str], body: object) -> tuple[int, Any]:
    return await (api.get(route[1]) if route[0] == "GET" else api.post(route[1], body))


def test_every_route_is_on_one_of_the_two_lists() -> None:
    known = set(routes(MagicMock()))
    assert known == set(STEERING) | set(DATA)
    assert {path for _, path in DATA} == DATA_PATHS


@pytest.mark.parametrize("route", STEERING, ids=lambda route: route[1])
async def test_the_data_port_refuses_what_steers(
    ports: Ports, session: aiohttp.ClientSession, route: tuple[str, str]
) -> None:
    status, body = await call(Api(session, ports.data), route, STEERING[route])
    assert (status, body["error"]["type"]) == (403, "Forbidden")
    assert await Api(session, ports.control).get("/is_paused") == (200, {"is_paused": False})


@pytest.mark.parametrize("route", STEERING, ids=lambda route: route[1])
async def test_the_control_port_serves_what_steers(
    ports: Ports, session: aiohttp.ClientSession, route: tuple[str, str]
) -> None:
    text = json.dumps(STEERING[route]).replace("MODEL", str(ports.model)).replace("ADAPTER", str(ports.adapter))
    body = json.loads(text)
    api = Api(session, ports.control)
    status, answer = await call(api, route, body)
    assert status == 200, answer
    await api.post("/resume")


@pytest.mark.parametrize("route", DATA, ids=lambda route: route[1])
async def test_both_ports_serve_data(ports: Ports, session: aiohttp.ClientSession, route: tuple[str, str]) -> None:
    for url in (ports.data, ports.control):
        status, answer = await call(Api(session, url), route, DATA[route])
        assert status == 200, answer


async def test_unknown_paths_and_methods_answer_as_ever(ports: Ports, session: aiohttp.ClientSession) -> None:
    api = Api(session, ports.data)
    assert (await api.get("/nothing"))[0] == 404
    assert (await api.get("/pause"))[0] == 403
    assert (await api.get("/tokenize"))[0] == 405


async def test_a_pause_on_one_port_holds_the_calls_of_the_other(ports: Ports, session: aiohttp.ClientSession) -> None:
    data, control = Api(session, ports.data), Api(session, ports.control)
    await control.post("/pause")
    with pytest.raises(TimeoutError):
        async with session.post(
            ports.data + "/inference/v1/generate",
            json={"token_ids": [65], "sampling_params": {"max_tokens": 1}},
            timeout=aiohttp.ClientTimeout(total=0.3),
        ):
            pass
    await control.post("/resume")
    assert len(choice(await data.generate([65], max_tokens=2))["token_ids"]) == 2
