# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""Environments of verifiers (v1) as they are, graded by their own rewards: the kind `verifiers`.

There the environment leads and asks a model server; here it is asked for its next observation. So it plays in a thread
of the episode's process, and the model server that it asks is ours: a question to the model is an observation, and the
action is the answer to it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import anyio._backends._asyncio  # noqa: F401
import httpcore  # noqa: F401
import verifiers.v1 as vf
import verifiers.v1.envs
import verifiers.v1.harnesses
import verifiers.v1.tasksets  # noqa: F401
from aiohttp import web
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import environment_class

from whetstone_env import verifiers_harness
from whetstone_env.arguments import Arguments
from whetstone_env.define import Kind
from whetstone_env.errors import EpisodeError, TaskError, words_of

# The modules above that nothing here uses take seconds, and would be imported by each episode's process anew.

MODEL = "policy"
# Verifiers finds a seat's program by the name of a module, which may have no dots.
HARNESS = "whetstone_verifiers_harness"
sys.modules[HARNESS] = verifiers_harness
# How long an episode that is left may take to end.
LEAVE_S = 4


class VerifiersEnvironment:
    """A question with tools offers them as `tool` environments do, and takes their calls as actions."""

    def __init__(
        self, taskset: str, config: dict[str, Any] | None = None, env: str = "", task: int | None = None
    ) -> None:
        """`taskset`, `env`: packages or modules. `config`: the taskset's. `task`: its place; else the seed's."""
        try:
            self._env = _environment(taskset, env, config or {})
        except (ImportError, AttributeError) as error:
            raise TaskError(words_of(error), "args.taskset") from None
        except (ValueError, TypeError) as error:
            raise TaskError(words_of(error), "args.config") from None
        self._task = task
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._known = 0
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        task = self._chosen(seed)
        self._playing = self._loop.create_task(self._play(task))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        observation, _, terminated, _, info = self._next()
        if terminated:
            raise RuntimeError("the environment ended before it asked the model anything")
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._answer is not None, "a step answers a question"
        self._loop.call_soon_threadsafe(self._answer.set_result, _message(action))
        return self._next()

    def close(self) -> None:
        if self._thread is None:
            return
        with suppress(RuntimeError):  # It has ended already, and its loop is closed.
            self._loop.call_soon_threadsafe(self._playing.cancel)
        self._thread.join(LEAVE_S)

    def _next(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        event, value = self._events.get()
        if event == "failed":
            raise value
        if event == "question":
            return *self._shown(value), False, False, _offered(value)
        rewards = {
            name: each.value for trace in value.traces for name, each in trace.rewards.items() if each is not None
        }
        played = [trace.reward for trace in value.traces if trace.agent.trainable]
        return "", sum(played) / len(played), True, False, {"rewards": rewards}

    def _shown(self, body: dict[str, Any]) -> tuple[Any, float]:
        """What is new since the last question, without the model's own words."""
        new = [each for each in body["messages"][self._known :] if each["role"] != "assistant"]
        self._known = len(body["messages"]) + 1
        outputs = [
            {"toolCallId": each["tool_call_id"], "output": _text(each)} for each in new if each["role"] == "tool"
        ]
        return ({"toolOutputs": outputs} if outputs else "\n\n".join(map(_text, new))), 0.0

    def _chosen(self, seed: int) -> vf.Task:
        taskset = self._env.taskset
        tasks = list(taskset) if taskset.bounded else []
        place = seed if self._task is None else self._task
        if not taskset.bounded:
            return next(itertools.islice(taskset, place, None))
        if not tasks or (self._task is not None and self._task >= len(tasks)):
            raise TaskError(f"the taskset has {len(tasks)} tasks, counted from 0", "args.task")
        return tasks[place % len(tasks)]

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._playing)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._events.put(("failed", EpisodeError("ENVIRONMENT", words_of(error))))
        finally:
            self._loop.close()

    async def _play(self, task: vf.Task) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._asked)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        try:
            await site.start()
            port = runner.addresses[0][1]
            client = vf.EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var="WHETSTONE_NO_KEY")
            async with self._env.serving():
                episode = await self._env.run_episode(task, vf.ModelContext(MODEL, client))
        finally:
            await runner.cleanup()
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if not episode.ok or not episode.traces:
            said = "; ".join(f"{error.type}: {error.message}" for error in errors) or "it did not say why"
            raise RuntimeError(f"the environment failed: {said}")
        self._events.put(("end", episode))

    async def _asked(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._answer = self._loop.create_future()
        self._events.put(("question", body))
        message = await self._answer
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        told = {"id": "answer", "object": "chat.completion", "created": int(time.time()), "model": MODEL}
        return web.json_response({**told, "choices": [choice], "usage": usage})


def _environment(taskset: str, env: str, config: dict[str, Any]) -> vf.Env[Any]:
    kind = environment_class(taskset, env)
    config_kind = concrete_type(kind, vf.EnvConfig, origin=vf.Env) or vf.EnvConfig
    seat = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}}
    seats = {name: seat for name in agent_config_fields(config_kind())}
    given = {"id": env, "taskset": {"id": taskset, **config}, "interception": {"type": "server"}, **seats}
    return kind(config_kind.model_validate(given))


def _message(action: Any) -> dict[str, Any]:
    """The model's answer in OpenAI's words: text, or calls as agents with tools give them."""
    if not (isinstance(action, list) and all(isinstance(call, dict) for call in action)):
        return {"role": "assistant", "content": action if isinstance(action, str) else json.dumps(action)}
    calls = [
        {
            "id": call.get("id") or f"call-{i}",
            "type": "function",
            "function": {"name": call.get("name", ""), "arguments": call.get("argumentsJson", "{}")},
        }
        for i, call in enumerate(action)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _offered(body: dict[str, Any]) -> dict[str, Any]:
    tools = [each["function"] for each in body.get("tools") or []]
    return {"tools": tools} if tools else {}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", f"[{part.get('type')}]") for part in content)


def verifiers_kind() -> Kind:
    text = "A task of verifiers, graded by its own rewards."
    return Kind("verifiers", text, True, VerifiersEnvironment, Arguments(VerifiersEnvironment))
