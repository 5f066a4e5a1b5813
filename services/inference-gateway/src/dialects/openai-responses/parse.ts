// SPDX-License-Identifier: Apache-2.0
import { ApiError, badField } from "../../completion/api-error.ts";
import type { EarlierAnswers } from "../../completion/earlier-answers.ts";
import type { AnswerForm } from "../../completion/logit-changes.ts";
import type { TemplateMessage } from "../../completion/message.ts";
import type { CompletionRequest, TemplateVariables, ToolChoice, Tools } from "../../completion/request.ts";
import { refuseUnsupported } from "../field-rules.ts";
import { parseForm, parseLogits } from "../read-logits.ts";
import { type Fields, flag, integer, parseDrawing, parseFields, parseModel } from "../read-fields.ts";
import { REQUEST_FIELDS } from "./fields.ts";
import { parseInput } from "./items.ts";
import { type NamedFunction, parseResponseTools, parseToolChoice } from "./tools.ts";

/** A response as asked for. */
export interface ResponsesRequest extends CompletionRequest {
  /** What the answer repeats of the request. */
  readonly repeated: Fields;
  /** The functions of namespaces, by their names in the template. */
  readonly namespaced: ReadonlyMap<string, NamedFunction>;
}

/** Parses a request body. @throws ApiError 400 with the path of the bad field; fields.ts says which are refused. */
export function parseResponsesRequest(body: unknown, earlier: EarlierAnswers): ResponsesRequest {
  const fields = parseFields(body);
  refuseUnsupported(fields, REQUEST_FIELDS);
  const { tools, namespaced } = parseResponseTools(fields["tools"]);
  const { previous, before } = parsePrevious(fields["previous_response_id"], earlier);
  const messages = parseInput(fields["input"], earlier);
  const toolChoice = parseToolChoice(fields["tool_choice"], tools);
  const form = parseText(fields["text"], tools, toolChoice);
  flag(fields, "parallel_tool_calls");
  flag(fields, "store");
  const whole = [...parseInstructions(fields["instructions"]), ...before, ...messages];
  if (whole.length === 0) throw badField("input", "must hold at least one item");
  return {
    model: parseModel(fields),
    messages: whole,
    tools,
    toolChoice,
    parallelCalls: fields["parallel_tool_calls"] !== false,
    variables: parseReasoning(fields["reasoning"]),
    sampling: parseDrawing(fields, integer(fields, "max_output_tokens", 1), parseLogits({}, form)),
    stream: flag(fields, "stream"),
    remember: fields["store"] === false ? undefined : { previous, messages },
    repeated: repeatedOf(fields),
    namespaced,
  };
}

/** Instructions hold for one request: a later one that goes on from its answer has its own. */
function parseInstructions(value: unknown): TemplateMessage[] {
  if (value === undefined || value === null) return [];
  if (typeof value !== "string") throw badField("instructions", "must be a text");
  return [{ role: "system", content: value }];
}

function parsePrevious(
  value: unknown,
  earlier: EarlierAnswers,
): { previous: string | undefined; before: TemplateMessage[] } {
  if (value === undefined || value === null) return { previous: undefined, before: [] };
  if (typeof value !== "string") throw badField("previous_response_id", "must be a string");
  const before = earlier.conversation(value);
  if (before !== undefined) return { previous: value, before };
  const message = `previous_response_id: no response "${value}" in this session; answers are kept by key, unless store is false`;
  throw new ApiError("INVALID_ARGUMENT", "previous_response_not_found", message, { param: "previous_response_id" });
}

/** How verbose an answer is, is the model's own matter. */
function parseText(value: unknown, tools: Tools, toolChoice: ToolChoice): AnswerForm | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object") throw badField("text", "must be an object");
  const unknown = Object.keys(value).find((name) => !["format", "verbosity"].includes(name));
  if (unknown !== undefined) throw badField(`text.${unknown}`, "no such field");
  const { verbosity = "medium" } = value as Fields;
  if (verbosity !== "medium" && verbosity !== null) throw badField("text.verbosity", "say it in the messages");
  const schemaOf = (format: Fields): unknown => format["schema"];
  return parseForm("text.format", (value as Fields)["format"], { schemaOf, tools, toolChoice });
}

/** The effort is the chat template's to know. */
function parseReasoning(value: unknown): TemplateVariables | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object") throw badField("reasoning", "must be an object");
  const { effort } = value as Fields;
  if (effort === undefined || effort === null) return undefined;
  if (typeof effort !== "string") throw badField("reasoning.effort", "must be a string");
  return { reasoning_effort: effort };
}

function repeatedOf(fields: Fields): Fields {
  const names = ["instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p", "user"];
  return {
    ...Object.fromEntries(names.map((name) => [name, fields[name] ?? null])),
    metadata: fields["metadata"] ?? {},
    parallel_tool_calls: fields["parallel_tool_calls"] ?? true,
    tool_choice: fields["tool_choice"] ?? "auto",
    tools: fields["tools"] ?? [],
    reasoning: fields["reasoning"] ?? { effort: null, summary: null },
    store: fields["store"] ?? true,
    text: fields["text"] ?? { format: { type: "text" } },
    truncation: "disabled",
  };
}
