// SPDX-License-Identifier: Apache-2.0
import { badField } from "../../completion/api-error.ts";
import {
  type CompletionRequest,
  type SamplingAsked,
  type TemplateVariables,
  type ToolChoice,
  type Tools,
} from "../../completion/request.ts";
import {
  type Fields,
  flag,
  includeUsage,
  integer,
  parseDrawing,
  parseFields,
  parseModel,
  requireTool,
  stopStrings,
} from "../read-fields.ts";
import { refuseUnsupported } from "../field-rules.ts";
import { parseForm, parseLogits } from "../read-logits.ts";
import { parseTools } from "../read-tools.ts";
import { REQUEST_FIELDS } from "./fields.ts";
import { parseMessages } from "./messages.ts";

/** A chat completion as asked for. */
export interface ChatRequest extends CompletionRequest {
  readonly includeUsage: boolean;
  readonly returnTokenIds: boolean;
}

/** Parses a request body. @throws ApiError 400 with the path of the bad field; fields.ts says which are refused. */
export function parseChatRequest(body: unknown): ChatRequest {
  const fields = parseFields(body);
  refuseUnsupported(fields, REQUEST_FIELDS);
  const tools = parseTools(fields["tools"]);
  const toolChoice = parseToolChoice(fields["tool_choice"], tools);
  flag(fields, "parallel_tool_calls");
  return {
    model: parseModel(fields),
    messages: parseMessages(fields["messages"]),
    tools,
    toolChoice,
    parallelCalls: fields["parallel_tool_calls"] !== false,
    n: integer(fields, "n", 1, MAX_CHOICES) ?? 1,
    variables: parseVariables(fields["chat_template_kwargs"]),
    sampling: parseSampling(fields, tools, toolChoice),
    stops: stopStrings(fields, "stop"),
    stream: flag(fields, "stream"),
    includeUsage: includeUsage(fields["stream_options"]),
    logprobs: parseLogprobs(fields),
    returnTokenIds: flag(fields, "return_token_ids"),
  };
}

/** Answers to one prompt at most: each is a call of its own on an engine. */
const MAX_CHOICES = 64;

/** @param value  "auto", "none", "required" or `{"type": "function", "function": {"name": …}}`. */
function parseToolChoice(value: unknown, tools: Tools): ToolChoice {
  if (value === undefined || value === null || value === "auto") return "auto";
  if (value === "none") return "none";
  if (value === "required" && tools !== undefined) return "required";
  const name = (value as { function?: { name?: unknown } }).function?.name;
  return requireTool("tool_choice", name, tools);
}

function parseSampling(fields: Fields, tools: Tools, toolChoice: ToolChoice): SamplingAsked {
  const schemaOf = (format: Fields): unknown => (format["json_schema"] as Fields | undefined)?.["schema"];
  const form = parseForm("response_format", fields["response_format"], { schemaOf, tools, toolChoice });
  const maxTokens = integer(fields, "max_completion_tokens", 1) ?? integer(fields, "max_tokens", 1);
  return parseDrawing(fields, maxTokens, parseLogits(fields, form));
}

function parseLogprobs(fields: Fields): number | undefined {
  const alternatives = integer(fields, "top_logprobs", 0, 20) ?? 0;
  if (flag(fields, "logprobs")) return alternatives;
  if (alternatives > 0) throw badField("top_logprobs", "needs logprobs: true");
  return undefined;
}

/** What the gateway itself gives to the template; another value would part the ids from the conversation. */
const OWN_VARIABLES = new Set(["messages", "tools", "documents", "add_generation_prompt", "continue_final_message"]);

function parseVariables(value: unknown): TemplateVariables | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) throw badField("chat_template_kwargs", "must be an object");
  const entries = Object.entries(value as Fields);
  for (const [name, given] of entries) {
    const path = `chat_template_kwargs.${name}`;
    if (OWN_VARIABLES.has(name)) throw badField(path, "is set by the gateway; leave it out");
    if (given !== null && typeof given === "object") throw badField(path, "must be a string, number, boolean or null");
  }
  return entries.length === 0 ? undefined : (value as TemplateVariables);
}
