// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Environment, EpisodeError, isDone, type ResetResult, type StepResult } from "@whetstone/sdk";
import { z } from "zod";
import { ClientMessage, type OpenEnvErrorCode } from "./wire.ts";

/** Opens an environment with the arguments of a client's reset. */
export type OpenEnvironmentFor = (args: Readonly<Record<string, unknown>>) => Environment;

/** What an action is on the wire: an agent's text, or what its agent makes of it. */
export const ServedAction = z.strictObject({ action: z.json(), metadata: z.record(z.string(), z.json()).optional() });

/** What an observation is on the wire. OpenEnv has one word for both ends; `truncated` tells them apart. */
export const ServedObservation = z.strictObject({
  text: z.string().optional(),
  data: z.json().optional(),
  info: z.record(z.string(), z.json()).optional(),
  truncated: z.boolean().optional(),
});

class ClientError extends Error {
  readonly code: OpenEnvErrorCode;

  constructor(code: OpenEnvErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A connection's episodes, one after the other. */
export class ServedSession {
  readonly #open: OpenEnvironmentFor;
  #environment: Environment | undefined;
  #isOver = false;
  #state = { episode_id: null as string | null, step_count: 0 };

  constructor(open: OpenEnvironmentFor) {
    this.#open = open;
  }

  /** @returns the answer; undefined: the client says good-bye */
  async answer(text: string): Promise<string | undefined> {
    try {
      const message = read(text);
      if (message.type === "close") return undefined;
      return JSON.stringify(await this.#answer(message));
    } catch (error) {
      return JSON.stringify({ type: "error", data: { message: messageOf(error), code: codeOf(error) } });
    }
  }

  async close(): Promise<void> {
    const environment = this.#environment;
    this.#environment = undefined;
    await environment?.close();
  }

  async #answer(message: Exclude<ClientMessage, { type: "close" }>): Promise<object> {
    if (message.type === "state") return { type: "state", data: this.#state };
    if (message.type === "reset") {
      await this.close();
      const { seed, episode_id, ...args } = message.data;
      this.#state = { episode_id: episode_id ?? null, step_count: 0 };
      this.#isOver = false;
      this.#environment = this.#open(args);
      return observation(await this.#environment.reset({ seed: seed ?? Math.floor(Math.random() * 2 ** 31) }));
    }
    if (this.#environment === undefined || this.#isOver)
      throw new ClientError("SESSION_ERROR", this.#isOver ? "the episode is over: reset first" : "reset comes first");
    const { action } = parse(ServedAction, message.data);
    const result = await this.#environment.step(action, {});
    this.#state = { ...this.#state, step_count: this.#state.step_count + 1 };
    this.#isOver = isDone(result);
    return observation(result);
  }
}

function observation(result: ResetResult & Partial<StepResult>): object {
  const { observation: seen, info, reward = null, terminated = false, truncated = false } = result;
  const shown = typeof seen === "string" ? { text: seen } : { data: seen };
  return {
    type: "observation",
    data: { observation: { ...shown, info, truncated }, reward, done: terminated || truncated },
  };
}

function read(text: string): ClientMessage {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ClientError("INVALID_JSON", "the message is not JSON");
  }
  const type = (value as { type?: unknown } | null)?.type;
  if (typeof type !== "string" || !["reset", "step", "state", "close"].includes(type))
    throw new ClientError("UNKNOWN_TYPE", `unknown message type: ${String(type).slice(0, 100)}`);
  return parse(ClientMessage, value);
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ClientError("VALIDATION_ERROR", `${issue?.path.join(".") || "message"}: ${issue?.message}`);
}

function codeOf(error: unknown): OpenEnvErrorCode {
  if (error instanceof ClientError) return error.code;
  if (error instanceof EpisodeError) return error.failureClass === "TASK" ? "VALIDATION_ERROR" : "EXECUTION_ERROR";
  const { code } = WhetstoneError.from(error);
  if (code === "RESOURCE_EXHAUSTED") return "CAPACITY_REACHED";
  return code === "INVALID_ARGUMENT" ? "VALIDATION_ERROR" : "EXECUTION_ERROR";
}

function messageOf(error: unknown): string {
  return WhetstoneError.from(error).message.slice(0, 1000);
}
