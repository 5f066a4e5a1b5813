// SPDX-License-Identifier: Apache-2.0
// `whet engines check` of an engine whose answers are over before anything can be done to them: that says nothing about it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type RealEngine, startRealEngine } from "../../services/inference-gateway/test/real-engine.ts";
import { type Fault, severalFaults, startFaultyEngine } from "../support/faulty-engine.ts";
import { makeTwoModels } from "../support/two-models.ts";

interface Checked {
  readonly checks: readonly { readonly check: string; readonly result: string; readonly detail: string }[];
}

/** Half a minute on an idle machine. */
const ALL_CHECKS_MS = 300_000;
/** What is done to answers, and the call by which the check sees how long a call takes. */
const HELD = ["POST /pause", "POST /abort_requests", "POST /inference/v1/abort_requests", "GET /health"];

describe("whet engines check of an engine that is fast", () => {
  let folder: string;
  let engine: RealEngine;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-engine-speed-"));
    engine = await startRealEngine((await makeTwoModels(folder)).a, "job:7");
  }, 120_000);
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  async function running(): Promise<number> {
    const text = await (await fetch(`${engine.url}/metrics`)).text();
    return Number(/^vllm:num_requests_running\{.*\} (\S+)$/mu.exec(text)?.[1]);
  }

  /** Those calls arrive once all answers are over, unless `isSlow` says that so many take long enough. */
  const late = (isSlow: (count: number) => boolean): Fault => ({
    before: async ({ route }) => {
      if (HELD.includes(route) && !isSlow(await running()))
        await waitFor(async () => (await running()) === 0, { timeoutMs: 100_000 });
      return undefined;
    },
  });

  async function check(fault: Fault, only: string): Promise<{ seen: string[][]; calls: readonly string[] }> {
    await using fast = await startFaultyEngine(engine.url, fault);
    const terminal = fakeTerminal();
    const { signal } = new AbortController();
    const context = { terminal, environment: {}, signal, force: signal };
    await runCommand(["engines", "check", fast.url, "--json", "--timeout", "120", "--only", only], context);
    const { checks } = terminal.documents[0] as Checked;
    return { seen: checks.slice(0, -1).map(({ check, result, detail }) => [check, result, detail]), calls: fast.calls };
  }

  it(
    "says that it cannot show what is asked, neither right nor wrong",
    async () => {
      const short: Fault = {
        after: ({ route }, { body }) => {
          if (route === "GET /v1/models") (body as { data: { max_model_len: number }[] }).data[0]!.max_model_len = 100;
        },
      };
      const { seen } = await check(severalFaults([late(() => false), short]), "T10,pause,T14,T25");
      const over = (what: string): string => `its answers of 75 tokens end before ${what} arrives`;
      expect(seen).toEqual([
        ["T10 pause", "skipped", over("a pause")],
        ["pause wait", "skipped", over("a pause")],
        ["pause keep", "skipped", over("a pause")],
        ["T14 abort", "skipped", over("an abort")],
        ["T25 spans", "skipped", over("a pause")],
      ]);
    },
    ALL_CHECKS_MS,
  );

  it(
    "tries again with more answers at a time, which take longer",
    async () => {
      const { seen, calls } = await check(
        late((count) => count > 10),
        "T10,pause keep,T14",
      );
      expect(
        seen.map(([name, result]) => [name, result]),
        JSON.stringify(seen),
      ).toEqual([
        ["T10 pause", "passed"],
        ["pause keep", "passed"],
        ["T14 abort", "passed"],
      ]);
      const times = (call: string): number => calls.filter((one) => one.startsWith(call)).length;
      expect([times("POST /pause?mode=keep"), times("POST /inference/v1/abort_requests")]).toEqual([2, 2]);
    },
    ALL_CHECKS_MS,
  );
});
