// SPDX-License-Identifier: Apache-2.0
import { badField } from "../../completion/api-error.ts";
import type { TemplateMessage } from "../../completion/message.ts";
import type { CompletionRequest, ToolChoice, Tools } from "../../completion/request.ts";
import { refuseUnsupported } from "../field-rules.ts";
import { parseTools } from "../read-tools.ts";
import {
  type Fields,
  flag,
  integer,
  parseDrawing,
  parseFields,
  parseModel,
  requireTool,
  stopStrings,
} from "../read-fields.ts";
import { REQUEST_FIELDS } from "./fields.ts";
import { parseMessages, textOf } from "./messages.ts";

/** Parses a request body. @throws ApiError 400 with the path of the bad field; fields.ts says which are refused. */
export function parseMessagesRequest(body: unknown): CompletionRequest {
  const fields = parseFields(body);
  refuseUnsupported(fields, REQUEST_FIELDS);
  const maxTokens = integer(fields, "max_tokens", 1);
  if (maxTokens === undefined) throw badField("max_tokens", "is required");
  const tools = parseCustomTools(fields["tools"]);
  return {
    model: parseModel(fields),
    messages: [...parseSystem(fields["system"]), ...parseMessages(fields["messages"])],
    tools,
    ...parseToolChoice(fields["tool_choice"], tools),
    sampling: parseDrawing(fields, maxTokens),
    stops: stopStrings(fields, "stop_sequences"),
    stream: flag(fields, "stream"),
  };
}

function parseSystem(value: unknown): TemplateMessage[] {
  const content = textOf(value, "system");
  return content === "" ? [] : [{ role: "system", content }];
}

/** The client's own tools, as chat templates know them. */
function parseCustomTools(value: unknown): Tools {
  return (parseTools(value) as Fields[] | undefined)?.map(
    ({ type, name, description, input_schema: parameters }, i) => {
      if (type !== undefined && type !== null && type !== "custom")
        throw badField(`tools.${i}.type`, "only custom tools are supported");
      if (typeof name !== "string") throw badField(`tools.${i}.name`, "must be a string");
      const described = description === undefined ? {} : { description };
      return { type: "function", function: { name, ...described, parameters: parameters ?? {} } };
    },
  );
}

function parseToolChoice(value: unknown, tools: Tools): { toolChoice: ToolChoice; parallelCalls: boolean } {
  const { type = "auto", name, disable_parallel_tool_use: single } = (value ?? {}) as Fields;
  return { toolChoice: choiceOf(type, name, tools), parallelCalls: single !== true };
}

function choiceOf(type: unknown, name: unknown, tools: Tools): ToolChoice {
  if (type === "auto" || type === "none") return type;
  if (type === "any" && tools !== undefined) return "required";
  return requireTool("tool_choice", name, tools);
}
