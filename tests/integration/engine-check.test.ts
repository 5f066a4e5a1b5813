// SPDX-License-Identifier: Apache-2.0
// `whet engines check`: our own engine keeps what it asks for, each of its checks finds the engine that does not, and whatever
// happens the engine is afterwards what it was.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { type FakeTerminal, fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type RealEngine, startRealEngine } from "../../services/inference-gateway/test/real-engine.ts";
import { FAULTY_ENGINES } from "../support/engine-faults.ts";
import { type Fault, severalFaults, startFaultyEngine } from "../support/faulty-engine.ts";
import { makeTwoAdapters, makeTwoModels } from "../support/two-models.ts";

const LABEL = "job:7";
/** Of tests that run all checks: seconds on an idle machine. */
const ALL_CHECKS_MS = 300_000;

interface Checked {
  readonly status: number;
  readonly passed: boolean;
  readonly checks: readonly { readonly check: string; readonly result: string; readonly detail: string }[];
  readonly terminal: FakeTerminal;
}

const resultsOf = ({ checks }: Checked, result: string): string[] =>
  checks.filter((one) => one.result === result).map((one) => one.check);
const shown = ({ terminal }: Checked): string => JSON.stringify(terminal.documents, undefined, 1);

describe("whet engines check", () => {
  let folder: string;
  let models: { a: string; b: string };
  let engine: RealEngine;
  let original: unknown;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-engine-check-"));
    models = await makeTwoModels(join(folder, "models"));
    engine = await startRealEngine(models.a, LABEL);
    original = await greedy();
  }, 120_000);
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Whatever a test did: resumed, the same label, the same weights, no copies of folders. */
  afterEach(async () => {
    await waitFor(async () => (await text("/metrics")).includes('requests_running{model_name="policy"} 0'));
    expect(await get("/is_paused")).toEqual({ is_paused: false });
    expect(await get("/weight_info")).toEqual({ weight_version: LABEL });
    expect(await greedy()).toEqual(original);
    expect(readdirSync(join(folder, "models")).toSorted()).toEqual(["a", "b"]);
  });

  const text = async (path: string): Promise<string> => await (await fetch(engine.url + path)).text();
  const get = async (path: string): Promise<unknown> => JSON.parse(await text(path));

  async function greedy(): Promise<number[]> {
    const sampling_params = { temperature: 0, max_tokens: 16, ignore_eos: true };
    const body = { token_ids: [256, 65, 66, 257], sampling_params };
    const answer = (await engine.control("/inference/v1/generate", body)) as { choices: { token_ids: number[] }[] };
    return answer.choices[0]?.token_ids ?? [];
  }

  async function check(url: string, flags: readonly string[] = [], signal = new AbortController().signal) {
    const terminal = fakeTerminal();
    const context = { terminal, environment: {}, signal, force: new AbortController().signal };
    const status = await runCommand(["engines", "check", url, "--json", ...flags], context);
    const { passed = false, checks = [] } = (terminal.documents[0] ?? {}) as Partial<Checked>;
    return { status, passed, checks, terminal };
  }

  const folders = (): string[] => ["--model", models.a, "--other-model", models.b];

  it(
    "finds nothing wrong with our engine, and skips nothing",
    async () => {
      const adapters = await makeTwoAdapters(models.a, join(folder, "adapters"));
      const checked = await check(engine.url, [...folders(), ...adapters.flatMap((each) => ["--adapter", each])]);
      expect(resultsOf(checked, "failed"), shown(checked)).toEqual([]);
      expect(resultsOf(checked, "skipped")).toEqual([]);
      expect(checked).toMatchObject({ status: 0, passed: true });
      expect(checked.checks.at(-1)?.detail).toBe(
        `weights of ${models.a}, label ${LABEL}, resumed; it answers as before`,
      );
    },
    ALL_CHECKS_MS,
  );

  const engines = FAULTY_ENGINES.map((planted) => [Object.keys(planted).join("; "), planted] as const);
  it.each(engines)(
    "finds the engine that %s",
    async (_name, planted) => {
      const faults = Object.values(planted);
      await using faulty = await startFaultyEngine(engine.url, severalFaults(faults.map(({ fault }) => fault)));
      const checked = await check(faulty.url, folders());
      // Each is found by its own check, and no check fails beside.
      const expected = new Set(faults.flatMap(({ says }) => Object.keys(says)));
      expect(resultsOf(checked, "failed").toSorted(), shown(checked)).toEqual([...expected].toSorted());
      for (const { check: name, result, detail } of checked.checks) {
        if (result !== "failed") continue;
        const reasons = faults.flatMap(({ says }) => says[name] ?? []);
        expect(
          reasons.some((reason) => reason.test(detail)),
          `${name}: ${detail}`,
        ).toBe(true);
      }
      expect(checked).toMatchObject({ status: 1, passed: false });
    },
    ALL_CHECKS_MS,
  );

  it(
    "loads no weights without folders, and says so",
    async () => {
      await using watched = await startFaultyEngine(engine.url, {});
      const checked = await check(watched.url);
      expect(resultsOf(checked, "failed"), shown(checked)).toEqual([]);
      const skipped = checked.checks.filter(({ detail }) => detail.startsWith("needs --model and --other-model"));
      expect(skipped.map((one) => one.check)).toEqual(["T20/T21 switch", "T22 failed load"]);
      expect(watched.calls).not.toContain("POST /collective_rpc");
      expect(checked.checks.at(-1)?.detail).toBe(`label ${LABEL}, resumed; it answers as before`);
    },
    ALL_CHECKS_MS,
  );

  it("runs only what it is told to, and a table is for people", async () => {
    const terminal = fakeTerminal();
    const { signal } = new AbortController();
    const context = { terminal, environment: {}, signal, force: signal };
    expect(await runCommand(["engines", "check", `${engine.url}/`, "--only", "T13, T01"], context)).toBe(0);
    expect(terminal.out.map((line) => line.replace(/ {2,}.*/u, ""))).toEqual([
      ...["CHECK", "T01 token echo", "T13 is_paused", "left as it was"],
    ]);
  });

  it("leaves an engine that serves alone, unless it is forced", async () => {
    const body = { token_ids: [256, 65, 257], sampling_params: { max_tokens: 1000, ignore_eos: true }, stream: true };
    const headers = { "content-type": "application/json" };
    const running = await fetch(`${engine.url}/inference/v1/generate`, {
      ...{ method: "POST", headers, body: JSON.stringify(body) },
    });
    const refused = await check(engine.url);
    expect(refused.status, shown(refused)).toBe(2);
    expect(refused.terminal.documents).toMatchObject([
      { error: { code: "CANNOT_CHECK", message: expect.stringMatching(/^1 requests run and 0 wait; --force/) } },
    ]);
    expect(await text("/metrics")).toContain('requests_running{model_name="policy"} 1');
    await running.body?.cancel();
  });

  it("forced, it ends what runs", async () => {
    const body = { token_ids: [256, 65, 257], sampling_params: { max_tokens: 1000, ignore_eos: true } };
    const running = engine.control("/inference/v1/generate", body) as Promise<{ choices: { finish_reason: string }[] }>;
    const isRunning = async (): Promise<boolean> =>
      (await text("/metrics")).includes('requests_running{model_name="policy"} 1');
    await waitFor(isRunning);
    expect((await check(engine.url, ["--force", "--only", "T13"])).status).toBe(0);
    expect((await running).choices[0]?.finish_reason).toBe("abort");
  });

  it("leaves an engine that is paused alone; forced, it resumes it", async () => {
    await engine.control("/pause");
    const refused = await check(engine.url);
    expect([refused.status, shown(refused)]).toEqual([2, expect.stringContaining("switching its weights")]);
    expect(await get("/is_paused")).toEqual({ is_paused: true });
    expect((await check(engine.url, ["--force", "--only", "T13"])).status).toBe(0);
  });

  it("leaves an engine that obeys a controller alone", async () => {
    const error = { message: "a controller of epoch 3 leads", type: "StaleEpoch", param: null, code: 409 };
    const before: Fault["before"] = ({ route }) =>
      route === "POST /resume" ? { status: 409, body: { error } } : undefined;
    await using led = await startFaultyEngine(engine.url, { before });
    const refused = await check(led.url);
    expect([refused.status, shown(refused)]).toEqual([2, expect.stringContaining("it obeys a controller")]);
  });

  it("Ctrl-C in the middle of a switch leaves the engine as it was", async () => {
    const stop = new AbortController();
    const before: Fault["before"] = ({ body }) => {
      const kwargs = body?.["kwargs"] as { weights_path?: string } | undefined;
      if (kwargs?.weights_path === models.b) setTimeout(() => stop.abort(), 5);
      return undefined;
    };
    await using watched = await startFaultyEngine(engine.url, { before });
    const checked = await check(watched.url, [...folders(), "--only", "T20"], stop.signal);
    expect(checked.status).toBe(1);
    const message = `stopped; the engine has again: weights of ${models.a}, label ${LABEL}, resumed`;
    expect(checked.terminal.documents).toMatchObject([{ error: { code: "STOPPED", message } }]);
  });

  it("says that the engine is not as it was where its weights cannot be loaded again", async () => {
    let loads = 0;
    const error = { message: "the disk is gone", type: "InternalServerError", param: null, code: 500 };
    const before: Fault["before"] = ({ route }) =>
      route === "POST /collective_rpc" && ++loads > 2 ? { status: 500, body: { error } } : undefined;
    await using faulty = await startFaultyEngine(engine.url, { before });
    const checked = await check(faulty.url, [...folders(), "--only", "T20"]);
    expect(resultsOf(checked, "failed")).toEqual(["T20/T21 switch", "left as it was"]);
    expect(checked.checks.at(-1)?.detail).toMatch(/refuses the weights .* with 500: .*the disk is gone/);
    // An engine under a label that is wrong must not answer.
    expect(await get("/is_paused")).toEqual({ is_paused: true });
    await engine.control("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: models.a } });
    await engine.control("/update_weight_version", { new_version: LABEL });
    await engine.control("/resume");
  });

  it("every request has a deadline", async () => {
    const before: Fault["before"] = async ({ route }) => {
      if (route === "GET /is_paused") await delay(1_500);
      return undefined;
    };
    await using slow = await startFaultyEngine(engine.url, { before });
    const checked = await check(slow.url, ["--force", "--timeout", "0.5", "--only", "T13"]);
    expect(checked.checks[0]).toMatchObject({ result: "failed", detail: "GET /is_paused: no answer within 0.5 s" });
  });

  describe("what cannot be checked ends with 2:", () => {
    let other: Server;
    let port: number;
    beforeAll(async () => {
      other = createServer((request, response) => {
        if (request.url !== "/hangs") response.writeHead(200).end("hello");
      });
      await new Promise<void>((listening) => other.listen(0, "127.0.0.1", listening));
      ({ port } = other.address() as AddressInfo);
    });
    afterAll(() => other.close());

    it.each([
      ["nobody at the address", () => "http://127.0.0.1:1", /^GET \/health: connect ECONNREFUSED 127\.0\.0\.1:1$/],
      ["no such host", () => "http://nowhere.invalid:8000", /^GET \/health: getaddrinfo (ENOTFOUND|EAI_AGAIN) nowhere/],
      ["a web server", () => `http://127.0.0.1:${port}`, /^GET \/v1\/models answered 200 and names no model/],
      [
        "TLS asked of a plain server",
        () => `https://127.0.0.1:${port}`,
        /^GET \/health: .*(wrong version|SSL|packet)/i,
      ],
      ["no URL", () => "localhost:8000", /^<url>: must be http:\/\/host:port/],
      ["a path", () => "http://127.0.0.1:8000/v1", /^<url>: must be http:\/\/host:port/],
    ])("%s", async (_name, url, message) => {
      const { status, terminal } = await check(url());
      expect(terminal.documents).toMatchObject([{ error: { message: expect.stringMatching(message) } }]);
      expect(status).toBe(2);
    });

    it.each([
      [["--model", "/a"], "--other-model"],
      [["--other-model", "/a"], "--model"],
      [["--adapter", "/a"], "--adapter"],
      [["--timeout", "0"], "--timeout"],
      [["--tolerance", "much"], "--tolerance"],
      [["--only", "T01,T99"], "--only"],
    ])("%j", async (flags, path) => {
      const { status, terminal } = await check(engine.url, flags);
      expect(terminal.documents).toMatchObject([{ error: { violations: [{ path }] } }]);
      expect(status).toBe(2);
    });
  });
});
