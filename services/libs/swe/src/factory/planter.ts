// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Execution, PreparedState, Sandbox, SandboxBackend } from "@whetstone/sandbox";
import { z } from "zod";
import type { LibraryRecord, Suite } from "../library.ts";
import { EditSchema } from "../task.ts";
import { graderLimits, toolCommand, toolEnvironment } from "../tool-command.ts";

const BaselineSchema = z.object({
  stable: z.array(z.string()),
  /** Of all kinds: passed, failed, skipped. */
  tests: z.number(),
  seconds: z.number(),
  /** Runs that did not come to their end. */
  unfinished: z.number(),
  /** Some that fail although nothing was planted, and why. */
  failing: z.record(z.string(), z.string()),
});
export type Baseline = z.output<typeof BaselineSchema>;

const ChangeSchema = z.object({
  path: z.string(),
  function: z.string(),
  kind: z.string(),
  line: z.number(),
  /** How many stable tests call the function. */
  tests: z.number(),
});
/** A way to break the library. */
export type PossibleBug = z.output<typeof ChangeSchema>;

const TrySchema = z.object({
  verdict: z.enum(["caught", "unnoticed", "too many", "unfinished", "unclear"]),
  /** Why each test fails. */
  failed: z.record(z.string(), z.string()).default({}),
  edits: z.array(EditSchema).default([]),
});
export type Attempt = z.output<typeof TrySchema>;

const DAY_MS = 86_400_000;
const ANSWER_BYTES = 64 * 1024 * 1024;
const RUNS = 3;
const BASELINE_SECONDS = 900;
/** Slower ones are left out: every episode pays for them. */
const SLOW_SECONDS = 3;

/** The server `whetstone_tasks.planting`, in a sandbox with one library. One request at a time. */
export class Planter implements AsyncDisposable {
  readonly #sandbox: Sandbox;
  readonly #execution: Execution;
  readonly #lines: AsyncGenerator<string, void>;

  private constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
    this.#execution = sandbox.exec(toolCommand("planting", sandbox), {
      env: toolEnvironment(sandbox),
      deadlineMs: DAY_MS,
      maxOutputBytes: ANSWER_BYTES,
      maxTotalBytes: Number.MAX_SAFE_INTEGER,
    });
    this.#lines = linesOf(this.#execution);
  }

  static async start(backend: SandboxBackend, state: PreparedState, suite: Suite): Promise<Planter> {
    return new Planter(await backend.open({ prepared: state, limits: graderLimits(suite), ttlMs: DAY_MS }));
  }

  /** Runs the tests several times: those that do not pass each time are no use. */
  async baseline(suite: Suite): Promise<Baseline> {
    return this.#watch({ suite, runs: RUNS });
  }

  /** Comes before `changes`. Runs the tests of a known library once, to learn which functions each one calls. */
  async watch({ suite, stable, seconds }: Pick<LibraryRecord, "suite" | "stable" | "seconds">): Promise<Baseline> {
    return this.#watch({ suite, runs: 1, stable, usualSeconds: seconds });
  }

  /** @param paths  the library's own code: it may carry its tests within its own folders */
  async changes(paths: readonly string[]): Promise<readonly PossibleBug[]> {
    return z.object({ changes: z.array(ChangeSchema) }).parse(await this.#ask({ do: "changes", paths })).changes;
  }

  /** @param numbers  places in `changes()` to break at once */
  async attempt(numbers: readonly number[], maxFailures: number): Promise<Attempt> {
    return TrySchema.parse(await this.#ask({ do: "try", numbers, maxFailures }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sandbox.close();
  }

  async #watch(request: object): Promise<Baseline> {
    const limits = { seconds: BASELINE_SECONDS, slowSeconds: SLOW_SECONDS };
    return BaselineSchema.parse(
      await this.#ask({ do: "baseline", stable: [], usualSeconds: 0, ...limits, ...request }),
    );
  }

  async #ask(request: object): Promise<unknown> {
    await this.#execution.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await this.#lines.next();
    if (done !== true) return JSON.parse(value) as unknown;
    const { stderr, failure, exitCode } = await this.#execution.result;
    const why = stderr.trim().slice(-1000) || (failure ?? `exit code ${exitCode}`);
    throw new WhetstoneError("INTERNAL", `the program that plants bugs ended: ${why}`);
  }
}

async function* linesOf(execution: Execution): AsyncGenerator<string, void> {
  let unread: Buffer[] = [];
  for await (const { stream, data } of execution.chunks()) {
    if (stream !== "stdout") continue;
    let rest = Buffer.from(data);
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      yield Buffer.concat([...unread, rest.subarray(0, end)]).toString();
      unread = [];
      rest = rest.subarray(end + 1);
    }
    unread.push(rest);
  }
}
