# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""The program that plays a seat of a verifiers environment: a chat with tools, in the episode's own process.

Verifiers' own chat program, `null`, is a script that uv installs and starts anew for each episode; this one is the same
conversation without that. It is named to verifiers by this module.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

# What verifiers looks for in a module that it was told.
__all__ = ["InProcessHarness"]


class InProcessHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> vf.ProgramResult:
        """Until the model answers without calling a tool, or verifiers says that the episode is over."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt or [])
        )
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        headers = {"authorization": f"Bearer {secret}"}
        async with AsyncExitStack() as stack, httpx.AsyncClient(timeout=None, headers=headers) as client:
            tools, *access = await connect_mcp({"mcpServers": servers}, stack)
            body = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
            while True:
                answer = await client.post(f"{endpoint}/chat/completions", json=body)
                if answer.status_code != 200:
                    return vf.ProgramResult(1, "", answer.text)
                message = answer.json()["choices"][0]["message"]
                messages.append(message)
                calls = message.get("tool_calls") or []
                for call in calls:
                    content = await _called(call["function"], *access)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
                if not calls:
                    return vf.ProgramResult(0, "", "")


async def _called(function: dict[str, Any], dispatch: dict[str, Any], servers: dict[str, Any]) -> Any:
    """What the model got wrong is an output for it to read."""
    if function["name"] not in dispatch:
        return f"error: unknown tool {function['name']!r}"
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError as error:
        return f"error: the arguments are no JSON: {error}"
    if not isinstance(arguments, dict):
        return "error: the arguments must be a JSON object"
    return await call_mcp(servers, dispatch, function["name"], arguments)
