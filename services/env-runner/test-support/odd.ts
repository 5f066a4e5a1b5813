// SPDX-License-Identifier: Apache-2.0
import { appendFileSync } from "node:fs";
import type { JsonObject } from "@bufbuild/protobuf";
import { parseOrThrow } from "@whetstone/core";
import { BaseEnv, defineEnvironment, type StepResult } from "@whetstone/sdk";
import { z } from "zod";

const Args = z.strictObject({ size: z.number().int().default(4), log: z.string().default("") });

/** See conformance.ts. */
class OddEnv extends BaseEnv {
  readonly #args: z.output<typeof Args>;

  constructor(args: z.output<typeof Args>) {
    super();
    this.#args = args;
  }

  override reset(): { observation: unknown; info: JsonObject } {
    return { observation: { board: [1, this.#args.size] }, info: {} };
  }

  override step(action: unknown, { signal }: { signal?: AbortSignal }): Promise<StepResult> {
    if (action === "throw") return Promise.reject(new Error("odd"));
    const going = { terminated: false, truncated: false, info: {} };
    if (action === "end") return Promise.resolve({ ...going, observation: "", terminated: true });
    if (action !== "hang")
      return Promise.resolve({ ...going, observation: action, reward: 0.5, info: { heard: true } });
    signal?.addEventListener("abort", () => this.#note("aborted"));
    return new Promise(() => undefined);
  }

  override computeFinalReward(): number {
    throw new Error("judge is ill");
  }

  override close(): void {
    this.#note("closed");
  }

  #note(event: string): void {
    if (this.#args.log !== "") appendFileSync(this.#args.log, `${event}\n`);
  }
}

export const odd = defineEnvironment({
  kind: "odd",
  description: "Misbehaves.",
  seedable: false,
  parseArgs: (args) => parseOrThrow(Args, args, ""),
  argsSchema: z.toJSONSchema(Args, { io: "input" }),
  create: (args) => new OddEnv(args),
});
