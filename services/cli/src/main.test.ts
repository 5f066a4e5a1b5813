// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import type { FakeController } from "../test-support/fake-controller.ts";
import { startFakeController } from "../test-support/fake-controller.ts";
import type { FakeTerminal } from "../test-support/fake-terminal.ts";
import { fakeTerminal } from "../test-support/fake-terminal.ts";
import { modelsTool } from "./models/models-tool.ts";
import { runCommand } from "./run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "whet-main-"));
const model = join(folder, "tiny");
let controller: FakeController;
let terminal: FakeTerminal;
let interrupt: AbortController;

beforeAll(async () => {
  await modelsTool(["init", model, "--preset", "tiny", "--seed", "0"], "model");
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeEach(async () => {
  controller = await startFakeController();
  terminal = fakeTerminal();
  interrupt = new AbortController();
});

afterEach(() => controller[Symbol.asyncDispose]());

function whet(...argv: string[]): Promise<number> {
  return whetWith({ WHETSTONE_ENDPOINT: controller.address }, ...argv);
}

function whetWith(environment: NodeJS.ProcessEnv, ...argv: string[]): Promise<number> {
  const base = { PATH: process.env["PATH"], WHETSTONE_DATA: join(folder, "data") };
  const force = new AbortController().signal;
  return runCommand(argv, { terminal, environment: { ...base, ...environment }, signal: interrupt.signal, force });
}

function jobFile(change: Record<string, unknown> = {}): string {
  const job = {
    name: "lake",
    model: { path: "tiny" },
    algorithm: { policyGradient: { groupSize: 4 } },
    loop: { steps: 2, batchGroups: 2 },
    ...change,
  };
  const path = join(folder, "job.json");
  writeFileSync(path, JSON.stringify(job));
  return path;
}

describe("bad input ends with 2 and names the culprit", () => {
  it.each<[string, () => string[], string]>([
    ["an unknown setting", () => ["train", jobFile({ lop: 1 })], 'lop: unknown setting; did you mean "loop"?'],
    ["a setting that --set mistypes", () => ["train", jobFile(), "--set", "loop.stps=3"], "loop.stps: unknown setting"],
    ["a --set without a value", () => ["train", jobFile(), "--set", "loop.steps"], '--set: "loop.steps" is not like'],
    [
      "a job file that is not there",
      () => ["train", join(folder, "no.yaml")],
      `${join(folder, "no.yaml")}: does not exist`,
    ],
    [
      "a model that is not there",
      () => ["train", jobFile({ model: { path: "nope" } })],
      `model.path: ${join(folder, "nope")} does not exist`,
    ],
    [
      "what only the controller can refuse",
      () => ["train", jobFile(), "--set", "algorithm.policyGradient.groupSize=999"],
      "algorithm.policyGradient.groupSize: times loop.batchGroups must be at most",
    ],
    ["a job that does not exist", () => ["jobs", "get", "nope"], "there is no job nope"],
    [
      "too large a k",
      () => ["eval", "--model", model, "--attempts", "2", "--k", "1,4", "--tasks", "0:5"],
      "--k: each must be from 1 to --attempts (2)",
    ],
    [
      "no number of engines",
      () => ["up", "--engines", "two"],
      '--engines: must be a whole number from 1 to 64, not "two"',
    ],
    [
      "a type that engines do not compute in",
      () => ["up", "--engine-dtype", "float16"],
      '--engine-dtype: must be float32 or bfloat16, got "float16"',
    ],
    [
      "episodes that are to be stored nowhere",
      () => ["up", "--store-episodes"],
      "--store-episodes: needs --object-store: where they are to be put",
    ],
    [
      "a model folder of up that is not there",
      () => ["up", "--model", join(folder, "nope")],
      `--model: ${join(folder, "nope")} does not exist`,
    ],
  ])(
    "%s",
    async (_, argv, expected) => {
      expect(await whet(...argv())).toBe(2);
      expect(terminal.err.join("\n")).toContain(expected);
    },
    60_000,
  ); // The first check of a model loads PyTorch.

  it("an absolute path that is not here is the named controller's to judge", async () => {
    const job = jobFile({ model: { path: "/data/models/elsewhere" } });
    expect(await whet("train", job, "--no-watch")).toBe(0);
    expect(await whetWith({}, "train", job)).toBe(2);
    expect(terminal.err.join("\n")).toContain("model.path: /data/models/elsewhere does not exist");
  });

  it("as JSON", async () => {
    expect(await whet("train", jobFile({ lop: 1, name: 7 }), "--json")).toBe(2);
    expect(terminal.documents).toMatchObject([
      { error: { code: "INVALID_ARGUMENT", violations: [{ path: "name" }, { path: "lop" }] } },
    ]);
  });

  it("a model without chat template", async () => {
    const bare = join(folder, "bare");
    execFileSync("cp", ["-r", model, bare]);
    for (const name of ["chat_template.jinja", "tokenizer_config.json"]) rmSync(join(bare, name), { force: true });
    expect(await whet("up", "--model", bare)).toBe(2);
    expect(terminal.err.join("\n")).toMatch(/^--model: chat_template/);
  });

  it("a port in use", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    expect(await whet("up", "--controller-port", String(port))).toBe(2);
    expect(await whetWith({ WHETSTONE_GATEWAY_PORT: String(port) }, "up")).toBe(2);
    server.close();
    expect(terminal.err).toEqual([
      `--controller-port: port ${port} is in use`,
      `--gateway-port: port ${port} is in use`,
    ]);
  });

  it("a data directory that cannot be written", async () => {
    writeFileSync(join(folder, "file"), "");
    expect(await whet("up", "--data", join(folder, "file", "data"))).toBe(2);
    expect(terminal.err[0]).toBe(`${join(folder, "file", "data")}: cannot be written (ENOTDIR)`);
  });

  it("a nats-server that is too old", async () => {
    mkdirSync(join(folder, "old"), { recursive: true });
    const old = join(folder, "old", "nats-server");
    writeFileSync(old, "#!/bin/sh\necho 'nats-server: v2.9.10'\n", { mode: 0o755 });
    expect(await whetWith({ WHETSTONE_NATS_SERVER: old }, "up")).toBe(2);
    expect(terminal.err[0]).toContain(`${old}: nats-server 2.9.10 is too old`);
  });

  it("--no-watch without a runtime", async () => {
    expect(await whetWith({}, "train", jobFile(), "--no-watch")).toBe(2);
    expect(terminal.err[0]).toContain("--no-watch: no runtime is up");
  });
});

describe("train", () => {
  beforeAll(() => {
    // The model check takes seconds, and has tests of its own.
    writeFileSync(join(folder, "python"), "#!/bin/sh\necho '{}'\n", { mode: 0o755 });
    process.env["WHETSTONE_PYTHON"] = join(folder, "python");
  });
  afterAll(() => void delete process.env["WHETSTONE_PYTHON"]);

  it("submits, prints a line for each step, and ends with 0", async () => {
    expect(await whet("train", jobFile(), "--set", "seed=7")).toBe(0);
    const lines = terminal.out.join("\n");
    expect(lines).toContain("submitted lake");
    expect(lines).toContain("step 2/2  reward 0.1  loss 0.5  8 episodes");
    expect(lines).toContain("lake succeeded; weights in /weights");
    expect(controller.jobs.get("lake")?.spec).toMatchObject({ seed: 7n, model: { path: model } });
  });

  it("ends with 3 when the job failed, with 1 when it was cancelled", async () => {
    controller.end = JobPhase.FAILED;
    expect(await whet("train", jobFile())).toBe(3);
    expect(terminal.out.at(-1)).toBe("lake failed: as scripted");
    controller.end = JobPhase.CANCELLED;
    Object.assign(controller.jobs.get("lake")?.status ?? {}, { phase: JobPhase.RUNNING });
    expect(await whet("jobs", "watch", "lake")).toBe(1);
  });

  it("detaches on an interrupt and says how to watch again", async () => {
    controller.end = JobPhase.RUNNING;
    const running = whet("train", jobFile());
    await expect.poll(() => terminal.out.some((line) => line.includes("RUNNING"))).toBe(true);
    interrupt.abort();
    expect(await running).toBe(0);
    expect(terminal.out.at(-1)).toContain("whet jobs watch lake");
    expect(controller.calls).toEqual(["submit"]);
  });

  it("resumes a suspended job that is submitted again", async () => {
    await whet("train", jobFile(), "--no-watch");
    await whet("jobs", "suspend", "lake");
    expect(await whet("train", jobFile())).toBe(0);
    expect(controller.calls).toEqual(["submit", "suspend", "submit", "resume"]);
  });

  it("prints one JSON document per event", async () => {
    expect(await whet("train", jobFile(), "--json")).toBe(0);
    const events = terminal.documents.map((one) => (one as { event: string }).event);
    expect(events.filter((event) => event === "step")).toHaveLength(2);
    expect(terminal.out).toEqual([]);
  });
});

describe("without a runtime", () => {
  it("says how to get one", async () => {
    expect(await whetWith({}, "jobs", "ls")).toBe(1);
    expect(terminal.err[0]).toContain("start one with `whet up`");
  });

  it("status and down are no failures", async () => {
    expect(await whetWith({}, "status", "--json")).toBe(0);
    expect(await whetWith({}, "down", "--json")).toBe(0);
    expect(terminal.documents).toMatchObject([{ running: false }, { stopped: false }]);
  });
});
