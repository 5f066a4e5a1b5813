# SPDX-License-Identifier: Apache-2.0
"""Agents of Python's usual libraries as their own pages write them; base URL, key and model are all that they are told.

Usage: python agents.py NAME STREAM URL KEY MODEL QUESTION. Prints a JSON line: the answer, and what the tool was asked.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DESCRIPTION = "Looks into a place"
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["place", "n"],
    "additionalProperties": False,
}
STEPS = 20


@dataclass
class Task:
    """What an agent is told, and what its tool was asked so far."""

    url: str
    key: str
    model: str
    question: str
    seen: list[Any] = field(default_factory=list)

    def look(self, place: str, n: int) -> str:
        """What the tool says."""
        self.seen.append({"place": place, "n": n})
        return f"nothing in {place}"


def openai_chat(task: Task, stream: bool) -> str:
    """The plain SDK, chat completions."""
    from openai import OpenAI

    client = OpenAI(base_url=task.url, api_key=task.key, max_retries=0)
    function = {"name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    asked: dict[str, Any] = {
        "model": task.model,
        "tools": [{"type": "function", "function": function}],
    }
    messages: list[Any] = [{"role": "user", "content": task.question}]
    while True:
        if stream:
            with client.chat.completions.stream(messages=messages, **asked) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = (
                client.chat.completions.create(messages=messages, **asked)
                .choices[0]
                .message
            )
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            content = task.look(**json.loads(call.function.arguments))
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": content}
            )


def openai_responses(task: Task, stream: bool) -> str:
    """The plain SDK, responses, each going on from the one before by its name."""
    from openai import OpenAI

    client = OpenAI(base_url=task.url, api_key=task.key, max_retries=0)
    tool = {
        "type": "function",
        "name": "look",
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
        "strict": True,
    }
    said: list[Any] = [{"role": "user", "content": task.question}]
    previous = None
    while True:
        asked: dict[str, Any] = {
            "model": task.model,
            "input": said,
            "tools": [tool],
            "previous_response_id": previous,
        }
        if stream:
            with client.responses.stream(**asked) as events:
                events.until_done()
                response = events.get_final_response()
        else:
            response = client.responses.create(**asked)
        previous = response.id
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        said = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": task.look(**json.loads(call.arguments)),
            }
            for call in calls
        ]


def anthropic_messages(task: Task, stream: bool) -> str:
    """The plain SDK, messages."""
    from anthropic import Anthropic

    client = Anthropic(
        base_url=task.url.removesuffix("/v1"), api_key=task.key, max_retries=0
    )
    tool = {"name": "look", "description": DESCRIPTION, "input_schema": PARAMETERS}
    messages: list[Any] = [{"role": "user", "content": task.question}]
    while True:
        asked: dict[str, Any] = {
            "model": task.model,
            "max_tokens": 1000,
            "messages": messages,
            "tools": [tool],
        }
        if stream:
            with client.messages.stream(**asked) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**asked)
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(
                block.text for block in answer.content if block.type == "text"
            )
        results = [
            {
                "type": "tool_result",
                "tool_use_id": one.id,
                "content": task.look(**one.input),
            }
            for one in calls
        ]
        messages.append({"role": "user", "content": results})


def langgraph(task: Task, stream: bool) -> str:
    """LangGraph's ReAct agent on LangChain's client of OpenAI."""
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    model = ChatOpenAI(
        model=task.model,
        base_url=task.url,
        api_key=task.key,
        max_retries=0,
        streaming=stream,  # type: ignore[arg-type]
    )
    tool = StructuredTool.from_function(task.look, name="look", description=DESCRIPTION)
    agent = create_react_agent(model, [tool])
    state = agent.invoke(
        {"messages": [("user", task.question)]}, {"recursion_limit": 2 * STEPS + 2}
    )
    return state["messages"][-1].content


def smolagents(task: Task, stream: bool) -> str:
    """smolagents' ToolCallingAgent. It ends by a tool of its own, `final_answer`."""
    from smolagents import OpenAIServerModel, Tool, ToolCallingAgent

    class Look(Tool):
        name = "look"
        description = DESCRIPTION
        inputs = {  # noqa: RUF012
            "place": {"type": "string", "description": "where"},
            "n": {"type": "integer", "description": "the how-manieth"},
        }
        output_type = "string"

        def forward(self, place: str, n: int) -> str:
            return task.look(place, n)

    model = OpenAIServerModel(model_id=task.model, api_base=task.url, api_key=task.key)
    agent = ToolCallingAgent(
        tools=[Look()],
        model=model,
        max_steps=STEPS,
        verbosity_level=0,
        stream_outputs=stream,
    )
    return str(agent.run(task.question))


AGENTS: dict[str, Callable[[Task, bool], str]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "langgraph": langgraph,
    "smolagents": smolagents,
}


def main(name: str, stream: str, *told: str) -> None:
    """Plays one episode."""
    task = Task(*told)
    with contextlib.redirect_stdout(sys.stderr):  # What a library shows of a stream.
        text = AGENTS[name](task, stream == "true")
    print(json.dumps({"text": text, "seen": task.seen}))


if __name__ == "__main__":
    main(*sys.argv[1:])
