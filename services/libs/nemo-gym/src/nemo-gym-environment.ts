// SPDX-License-Identifier: Apache-2.0
import { isReward, type Info, type RewardOutput } from "@whetstone/sdk";
import { defineTool, type Tool, ToolEnvironment, ToolError } from "@whetstone/tools";
import { z } from "zod";
import { NemoGymSession, type SessionOptions } from "./session.ts";

const text = z.object({ type: z.string(), text: z.string() });
const message = z.looseObject({ role: z.string(), content: z.union([z.string(), z.array(text)]) });
const tool = z.looseObject({
  type: z.literal("function"),
  name: z.string().regex(/^[\w-]{1,64}$/u),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
});

/** What a row of NeMo Gym's data asks the model: parameters of OpenAI's Responses API. */
export const ResponsesParams = z.looseObject({
  input: z.union([z.string().min(1), z.array(message).min(1)]),
  tools: z.array(tool).max(128).default([]),
});

export interface NemoGymOptions extends SessionOptions {
  readonly params: z.output<typeof ResponsesParams>;
  /** The row, `responses_create_params` included: the server gets it as it is. */
  readonly row: Info;
  /** Turns. */
  readonly maxSteps: number;
  /** Of one tool's output, in characters. */
  readonly maxOutputCharacters: number;
}

const Verdict = z.looseObject({
  reward: z.unknown(),
  mask_sample: z.boolean().default(false),
  failure_reason: z.string().nullish(),
  reward_components: z.record(z.string(), z.number()).optional(),
});

/**
 * A row of a resource server's data: the session is seeded with it, calls of its tools go to the server, and the server
 * verifies the answer with all that led to it. What it fails at is ENVIRONMENT, or GRADER at the verdict; a verdict that
 * says of itself that it measures nothing (`mask_sample`) is ENVIRONMENT, never a reward (I6).
 */
export function nemoGymEnvironment(options: NemoGymOptions): ToolEnvironment {
  const { params, row, maxSteps, maxOutputCharacters, callTimeoutMs } = options;
  const session = new NemoGymSession(options);
  /** What the model did and saw, as items of a Response. */
  const items: object[] = [];
  return new ToolEnvironment({
    task: { question: questionOf(params.input) },
    tools: async () => {
      const seeded = await session.post("seed_session", row, "ENVIRONMENT");
      if (!seeded.ok)
        throw session.failed("seed_session", `it answered ${seeded.status}: ${seeded.text.slice(0, 200)}`);
      return params.tools.map((spec) => toolOf(spec, session, items));
    },
    rewardFunction: (_, answer, more) => verify(session, options, [...items, messageItem(answer)], more?.signal),
    maxSteps,
    maxOutputCharacters,
    timeoutMs: callTimeoutMs + 1_000, // The request's own bound comes first, and says whose fault it is.
  });
}

function toolOf(spec: z.output<typeof tool>, session: NemoGymSession, items: object[]): Tool {
  const { name, description, parameters } = spec;
  return defineTool({
    name,
    description: description ?? "",
    parameters: parameters ?? { type: "object" },
    run: async (args: Info, { signal }) => {
      const call_id = `call_${items.length}`;
      items.push({ type: "function_call", call_id, name, arguments: JSON.stringify(args) });
      const { ok, status, text: output } = await session.post(name, args, "ENVIRONMENT", signal);
      items.push({ type: "function_call_output", call_id, output });
      if (status === 404) throw session.failed(name, "the row names a tool that the server does not have");
      if (!ok) throw new ToolError(output);
      return output;
    },
  });
}

async function verify(
  session: NemoGymSession,
  { row, params }: NemoGymOptions,
  output: readonly object[],
  signal: AbortSignal | undefined,
): Promise<RewardOutput> {
  const response = {
    ...{ id: "resp_whetstone", created_at: 0, model: "policy", object: "response", output },
    ...{ parallel_tool_calls: true, tool_choice: "auto", tools: params.tools },
  };
  const answer = await session.post("verify", { ...row, response }, "GRADER", signal);
  const parsed = answer.ok ? Verdict.safeParse(parse(answer.text)) : undefined;
  const reward = parsed?.data?.reward;
  if (parsed?.success !== true || !isReward(reward))
    throw session.failed(
      "verify",
      `it answered ${answer.status} without a reward: ${answer.text.slice(0, 200)}`,
      "GRADER",
    );
  const { mask_sample, failure_reason, reward_components } = parsed.data;
  if (mask_sample)
    throw session.failed("verify", `the sample measures nothing: ${failure_reason ?? "it does not say why"}`);
  const metadata = { ...(reward_components && { reward_components }), ...(failure_reason && { failure_reason }) };
  return { reward, isCorrect: reward >= 1, metadata };
}

function messageItem(answer: string): object {
  const content = [{ type: "output_text", text: answer, annotations: [] }];
  return { id: "msg_whetstone", type: "message", role: "assistant", status: "completed", content };
}

/** All that is said before the model speaks, instructions of the system first where they stand first. */
function questionOf(input: z.output<typeof ResponsesParams>["input"]): string {
  if (typeof input === "string") return input;
  const texts = input.map(({ content }) =>
    typeof content === "string" ? content : content.map((part) => part.text).join("\n"),
  );
  return texts.join("\n\n");
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}
