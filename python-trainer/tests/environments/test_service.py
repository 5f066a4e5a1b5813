# SPDX-License-Identifier: Apache-2.0
"""`whetstone_env` over real gRPC; services/env-runner/src/conformance.test.ts has what every server must do."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from whetstone.environments.v1 import environments_pb2 as wire
from whetstone.environments.v1 import environments_pb2_grpc as rpc

from whetstone_env.server import EnvironmentServer, start_server
from whetstone_env.settings import Command, Settings

TROUBLED = str(Path(__file__).parent / "troubled.py")


class Episode:
    """A stream, one request and one answer at a time."""

    def __init__(self, stub: rpc.EnvironmentServiceStub) -> None:
        self.call = stub.Session(timeout=60)

    async def reset(self, seed: int = 1, kind: str = "troubled", **args: Any) -> wire.SessionResponse:
        reset = wire.Reset(kind=kind, seed=seed)
        reset.args.update(args)
        return await self.ask(wire.SessionRequest(reset=reset))

    async def step(self, action: str) -> wire.SessionResponse:
        return await self.ask(wire.SessionRequest(step=wire.Step(action=action)))

    async def ask(self, request: wire.SessionRequest) -> wire.SessionResponse:
        await self.call.write(request)
        answer = await self.call.read()
        assert isinstance(answer, wire.SessionResponse), "the stream has ended"
        return answer


class Service:
    """A server in the test's process, and a client of it."""

    def __init__(self, server: EnvironmentServer, channel: grpc.aio.Channel) -> None:
        self.server, self.channel = server, channel
        self.stub = rpc.EnvironmentServiceStub(channel)

    def episode(self) -> Episode:
        return Episode(self.stub)

    async def opened(self, **args: Any) -> Episode:
        episode = self.episode()
        answer = await episode.reset(**args)
        assert answer.HasField("observation"), answer
        return episode

    @property
    def pids(self) -> list[int]:
        return self.server.shared.workers.pids

    async def until_idle(self) -> None:
        await until(lambda: self.server.shared.slots.used == 0)


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "never became true"
        await asyncio.sleep(0.02)


Start = Callable[..., Awaitable[Service]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Service] = []

    async def begin(*targets: str, **settings: int) -> Service:
        command = Command(targets or (TROUBLED,), "127.0.0.1", 0, None, "info", Settings(**settings))
        server = await start_server(command)
        started.append(Service(server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")))
        return started[-1]

    yield begin
    for service in started:
        await service.channel.close()
        await service.server.close()


def failure(answer: wire.SessionResponse) -> tuple[str, str, str]:
    assert answer.HasField("error"), answer
    return answer.error.code, answer.error.field, answer.error.message


async def test_values_of_numpy_are_plain_and_generators_are_seeded(start: Start) -> None:
    service = await start()
    first, second, other = [await service.episode().reset(seed) for seed in (5, 5, 6)]
    seen = [json_format.MessageToDict(each.observation.data) for each in (first, second, other)]
    assert seen[0]["array"] == [0, 1]
    assert seen[0]["luck"] == seen[1]["luck"] != seen[2]["luck"]
    episode = await service.opened()
    last = (await episode.step("go")).observation
    assert (last.text, last.reward, last.terminated) == ("done", 1.0, True)
    assert json_format.MessageToDict(last.info) == {"success": True}


async def test_a_task_names_its_seed_in_its_payload(start: Start) -> None:
    reset = wire.Reset(kind="troubled", seed=1)
    reset.args.update({"seed": 77})
    answer = await (await start()).episode().ask(wire.SessionRequest(reset=reset))
    assert json_format.MessageToDict(answer.observation.data)["seed"] == 77


@pytest.mark.parametrize(
    ("args", "field", "words"),
    [
        ({"size": 2.5}, "args.size", "must be a whole number, not 2.5"),
        ({"size": 10}, "args.size", "must be at most 9"),
        ({"mood": "odd"}, "args.mood", "must be one of 'good', 'bad', not 'odd'"),
        ({"share": "x"}, "args.share", "must be a number or null"),
        ({"mood": ["artifact://tasks/t"]}, "args.mood", "get no artifacts"),
        ({"sise": 1}, "args.sise", "unknown setting; known: size, mood, share"),
    ],
)
async def test_bad_arguments_are_the_tasks_fault(start: Start, args: dict[str, Any], field: str, words: str) -> None:
    code, path, message = failure(await (await start()).episode().reset(**args))
    assert (code, path) == ("TASK", field)
    assert words in message


@pytest.mark.parametrize(
    ("action", "code", "words"),
    [
        ("raise", "ENVIRONMENT", "ValueError: odd (troubled.py:"),
        ("exit", "ENVIRONMENT", "SystemExit: 3"),
        ("grow", "ENVIRONMENT", "MemoryError"),
        ("nan", "ENVIRONMENT", "step() returned reward nan: it must be a finite number"),
        ("object", "ENVIRONMENT", "step() returned observation.deep[0] <object"),
        ("four", "ENVIRONMENT", "it must be a tuple: observation, reward, terminated, truncated, info"),
        ("no reward", "ENVIRONMENT", "ended the episode without a reward"),
        ("large", "ENVIRONMENT", "17 MiB, where at most 16 MiB are allowed"),
        ("task", "TASK", "no such question"),
        ("vanish", "CRASHED", "ended during step() (exit code 7)"),
    ],
)
async def test_what_fails_is_told_by_class_and_words(start: Start, action: str, code: str, words: str) -> None:
    episode = await (await start()).opened()
    told, _, message = failure(await episode.step(action))
    assert told == code
    assert words in message


async def test_a_constructor_that_raises_is_the_environments_failure(start: Start) -> None:
    code, _, message = failure(await (await start()).episode().reset(mood="bad"))
    assert code == "ENVIRONMENT"
    assert "RuntimeError: not today (troubled.py:" in message


async def test_a_step_that_hangs_ends_its_episode_and_no_other(start: Start) -> None:
    service = await start(call_timeout_ms=2_000)
    hanging, other = await service.opened(), await service.opened()
    stuck = asyncio.create_task(hanging.step("loop"))
    await asyncio.sleep(0.2)
    assert (await other.step("go")).observation.text == "done"
    code, _, message = failure(await stuck)
    assert code == "CRASHED"
    assert message == "step() took longer than 2 s, so its process was ended"
    await until(lambda: service.server.shared.slots.used == 1)
    assert (await (await service.opened()).step("go")).observation.text == "done"


async def test_a_killed_process_ends_its_episode_and_no_other(start: Start) -> None:
    service = await start()
    first = service.episode()
    info = (await first.reset()).observation.info
    other = await service.opened()
    os.kill(int(info["pid"]), signal.SIGKILL)  # pyright: ignore[reportArgumentType]
    code, _, message = failure(await first.step("go"))
    assert code == "CRASHED"
    assert "signal 9, SIGKILL" in message
    assert (await other.step("go")).observation.text == "done"


async def test_a_process_takes_one_episode_after_the_other(start: Start) -> None:
    service = await start()
    for _ in range(3):
        episode = await service.opened()
        assert (await episode.step("go")).observation.text == "done"
        await episode.call.done_writing()
        await service.until_idle()
    assert len(service.pids) == 1


async def test_an_idle_episode_is_closed(start: Start) -> None:
    service = await start(idle_timeout_ms=300)
    episode = await service.opened()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await episode.call.read()
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert "no request came for 0.3 s" in str(caught.value.details())
    await service.until_idle()


async def test_what_an_environment_started_ends_with_it(start: Start) -> None:
    service = await start(call_timeout_ms=1_000)
    episode = await service.opened()
    child = int((await episode.step("child")).observation.text)
    await episode.step("loop")
    await until(lambda: not is_running(child))


async def test_settings_of_the_service_are_not_the_users(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHETSTONE_TLS_PATH", "/somewhere")
    episode = await (await start()).opened()
    assert json_format.MessageToDict((await episode.step("variables")).observation.data) == []


async def test_modules_of_jobs_are_not_played_here(start: Start) -> None:
    service = await start()
    module = {"digest": "0" * 64}
    described = await service.stub.Describe(wire.DescribeRequest(module=module))
    assert list(described.kinds) == []
    request = wire.SessionRequest(reset=wire.Reset(kind="troubled", module=module))
    assert failure(await service.episode().ask(request))[:2] == ("TASK", "module")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_counts_steps_and_how_episodes_end(start: Start) -> None:
    service = await start()
    episode = await service.opened()
    await episode.step("anything")
    await episode.ask(wire.SessionRequest(close=wire.Close()))
    await service.until_idle()
    text = service.server.shared.metrics.text(0, 1)
    assert 'whetstone_env_steps_total{component="env-runner"} 1\n' in text
    assert 'whetstone_env_sessions_total{end="closed",component="env-runner"} 1\n' in text
