// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { create } from "@bufbuild/protobuf";
import { JobPhase, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { EpisodeSummarySchema, FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import type { EvaluationReport } from "@whetstone/sdk";
import { DatasetRegistry } from "@whetstone/datasets";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import type { FakeController } from "../../test-support/fake-controller.ts";
import { startFakeController } from "../../test-support/fake-controller.ts";
import type { FakeTerminal } from "../../test-support/fake-terminal.ts";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "whet-eval-"));
const [model, datasets] = [join(folder, "model"), join(folder, "datasets")];
let controller: FakeController;
let terminal: FakeTerminal;
let interrupt: AbortController;

beforeAll(() => {
  mkdirSync(model);
  // The model check takes seconds, and has tests of its own.
  writeFileSync(join(folder, "python"), "#!/bin/sh\necho '{}'\n", { mode: 0o755 });
  process.env["WHETSTONE_PYTHON"] = join(folder, "python");
  process.env["WHETSTONE_DATASETS"] = datasets;
});

afterAll(() => {
  delete process.env["WHETSTONE_PYTHON"];
  delete process.env["WHETSTONE_DATASETS"];
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  controller = await startFakeController();
  controller.validations = [create(ValidationResultSchema, { tasks: 2, episodes: 3 })];
  controller.episodes = [
    played("e", 1, 1, "+"),
    played("e", 0, 0, "+"),
    played("e", 0, 1, "-"),
    played("e", 1, 0, "x"),
  ];
  terminal = fakeTerminal();
  interrupt = new AbortController();
});

afterEach(() => controller[Symbol.asyncDispose]());

/** "+" is correct, "-" is not, "x" is void. */
function played(job: string, task: number, sample: number, mark: "+" | "-" | "x"): EpisodeSummary {
  const isVoid = mark === "x";
  return create(EpisodeSummarySchema, {
    episodeId: `${job}/v0-eval-${task}/s${sample}`,
    ...{ taskId: `t${task}`, taskSource: task === 0 ? "easy" : "hard" },
    ...{ reward: mark === "+" ? 1 : 0, isCorrect: mark === "+" },
    terminationReason: isVoid ? TerminationReason.ERROR : TerminationReason.ENV_DONE,
    failureClass: isVoid ? FailureClass.ENVIRONMENT : FailureClass.NONE,
    ...(isVoid ? { failurePhase: "step", failureMessage: "<b>boom</b>" } : {}),
  });
}

function whet(...argv: string[]): Promise<number> {
  const environment = { PATH: process.env["PATH"], WHETSTONE_ENDPOINT: controller.address };
  const force = new AbortController().signal;
  return runCommand(argv, { terminal, environment, signal: interrupt.signal, force });
}

const evaluate = (...more: string[]): Promise<number> => whet("eval", "--model", model, "--name", "e", ...more);
const TASKS = ["--tasks", "7:2", "--attempts", "2"];

describe("whet eval", () => {
  it("prints a row a source with intervals, and what failed", async () => {
    expect(await evaluate(...TASKS, "--k", "1,2")).toBe(0);
    const text = terminal.out.join("\n");
    expect(text).toContain("submitted e");
    expect(text).toContain("4/4 episodes  success 66.7%  reward 0.667  1 voided");
    expect(text).toContain("2 tasks of seeds 7 to 8, 2 episodes each");
    expect(text).toMatch(/SOURCE +TASKS +EPISODES +VOIDED +MEAN REWARD +SUCCESS +PASS@1 +PASS@2/);
    expect(text).toMatch(/easy +1 +2 +0 +0\.5 +50\.0% \[.*\] +50\.0% \[.*\] +100\.0% \[/);
    expect(text).toMatch(/hard +1 +1 +1 +1 +100\.0% \[.*\] +100\.0% \[.*\] +–/);
    expect(text).toMatch(/all +2 +3 +1 +0\.667 \[/);
    expect(text).toMatch(/ENVIRONMENT +step +1 +voided +<b>boom<\/b>/);
  });

  it("writes a report that is whole in itself, and prints it as JSON", async () => {
    const into = join(folder, "report");
    expect(await evaluate(...TASKS, "--report", into, "--json")).toBe(0);
    const report = JSON.parse(readFileSync(join(into, "report.json"), "utf8")) as EvaluationReport;
    expect(terminal.documents).toEqual([report]);
    expect(report).toMatchObject({ name: "e", model, ks: [1, 2], total: { tasks: 2, episodes: 3, voided: 1 } });
    expect(report.tasks.map(({ id, attempts }) => [id, attempts.map((one) => one.id)])).toEqual([
      ["t0", ["e/v0-eval-0/s0", "e/v0-eval-0/s1"]],
      ["t1", ["e/v0-eval-1/s0", "e/v0-eval-1/s1"]],
    ]);
    const page = readFileSync(join(into, "report.html"), "utf8");
    expect(page).toContain("&lt;b&gt;boom&lt;/b&gt;");
    expect(page).not.toMatch(/<b>boom|https?:|src=|href=|@import|url\(/);
    expect(page).toContain("prefers-color-scheme: dark");
  });

  it("asks for what it was told: dataset, first tasks, sampling, seed, concurrency", async () => {
    await DatasetRegistry.register("sums", [{ question: "1+1", id: "a" }], "test");
    const options = ["--take", "5", "--temperature", "0", "--max-tokens", "9", "--seed", "3", "--concurrency", "8"];
    expect(await evaluate("--dataset", "sums", "--environment", "math", ...options)).toBe(0);
    const spec = controller.jobs.get("e")?.spec;
    expect(spec).toMatchObject({
      seed: 3n,
      agent: { kind: "math" },
      environment: { kind: "math" },
      loop: { steps: 0 },
    });
    expect(spec?.validation).toMatchObject({ concurrency: 8, dataset: { take: 5n, source: { case: "jsonl" } } });
    expect(spec?.validation?.variants[0]).toMatchObject({ attempts: 1, sampling: { temperature: 0, maxTokens: 9 } });
    const path = spec?.validation?.dataset?.source.value as string;
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ id: "a", payload: { question: "1+1" }, source: "sums" });
  });

  it("several datasets follow one another, each a source of its own", async () => {
    await DatasetRegistry.register("one", [{ id: "a" }]);
    writeFileSync(join(folder, "two.csv"), "id,question\nb,2+2\n");
    expect(await evaluate("--dataset", "one", "--dataset", join(folder, "two.csv"))).toBe(0);
    const path = controller.jobs.get("e")?.spec?.validation?.dataset?.source.value as string;
    const lines = readFileSync(path, "utf8").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { id: "a", source: "one" },
      { id: "b", source: "two", payload: { question: "2+2" } },
    ]);
  });

  it("the same name again is the same job; an interrupt says how to go on", async () => {
    controller.end = JobPhase.RUNNING;
    const running = evaluate(...TASKS);
    await expect.poll(() => terminal.out.some((line) => line.includes("RUNNING"))).toBe(true);
    interrupt.abort();
    expect(await running).toBe(0);
    expect(terminal.out.at(-1)).toContain("--name e");
    controller.end = JobPhase.SUCCEEDED;
    interrupt = new AbortController();
    expect(await evaluate(...TASKS)).toBe(0);
    expect(terminal.out).toContain("taken up again: e");
  });

  it("a job that failed has no report, and ends with 3", async () => {
    controller.end = JobPhase.FAILED;
    controller.validations = [];
    expect(await evaluate(...TASKS)).toBe(3);
    expect(terminal.err).toEqual(["whet: as scripted"]);
  });

  it.each([
    [["--attempts", "0"], "--attempts: must be a whole number of at least 1"],
    [["--k", "2"], "--k: each must be from 1 to --attempts (1)"],
    [["--tasks", "5"], '--tasks: "5" is not first:count'],
    [["--tasks", "1:2", "--dataset", "sums"], "--tasks: cannot be given beside --dataset"],
    [["--dataset", "nowhere"], '--dataset: "nowhere" is no file and no registered dataset; there are'],
    [["--temperature", "hot"], "--temperature: must be a number of at least 0"],
    [["--seed", "-1"], "--seed: must be a whole number"],
    [[], "--dataset: needed"],
  ])("bad input %s ends with 2", async (argv, expected) => {
    expect(await evaluate(...argv)).toBe(2);
    expect(terminal.err.join("\n")).toContain(expected);
  });
});

describe("whet eval compare", () => {
  const reportOf = async (name: string, episodes: EpisodeSummary[]): Promise<string> => {
    controller.episodes = episodes;
    expect(await whet("eval", "--model", model, "--name", name, ...TASKS, "--report", join(folder, name))).toBe(0);
    return join(folder, name, "report.json");
  };

  it("shows the paired difference and the tasks that changed", async () => {
    const before = await reportOf("old", [
      played("old", 0, 0, "-"),
      played("old", 1, 0, "+"),
      played("old", 2, 0, "-"),
    ]);
    const after = await reportOf("new", [played("new", 0, 0, "+"), played("new", 1, 0, "+"), played("new", 3, 0, "+")]);
    terminal.out.length = 0;
    expect(await whet("eval", "compare", before, after)).toBe(0);
    const text = terminal.out.join("\n");
    expect(text).toMatch(/all +2 +50\.0% +100\.0% +\+50\.0 \[.*\] .* 1 +0 +1/);
    expect(text).toMatch(/t0 +easy +0\.0% +100\.0%/);
    expect(text).toContain("scored only in old, and left out: 1 (t2)");
    expect(await whet("eval", "compare", before, after, "--json")).toBe(0);
    expect(terminal.documents).toMatchObject([
      { total: { tasks: 2, better: 1 }, changed: [{ id: "t0", difference: 1 }] },
    ]);
  });

  it.each([
    ["nothing.json", "does not exist"],
    ["broken.json", "is not JSON"],
    ["other.json", "is no report of `whet eval`"],
  ])("%s ends with 2", async (name, reason) => {
    writeFileSync(join(folder, "broken.json"), "{");
    writeFileSync(join(folder, "other.json"), "{}");
    expect(await whet("eval", "compare", join(folder, name), join(folder, name))).toBe(2);
    expect(terminal.err.join("\n")).toContain(reason);
  });
});

it("the page's script is sound JavaScript", async () => {
  const { SCRIPT } = await import("../evaluation/eval-style.ts");
  writeFileSync(join(folder, "script.cjs"), SCRIPT);
  execFileSync(process.execPath, ["--check", join(folder, "script.cjs")]);
});
