// SPDX-License-Identifier: Apache-2.0
// Python in sandboxes, by a scripted policy through the real env-runner.
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";

const call = (code: string): string =>
  `<tool_call>${JSON.stringify({ name: "python", arguments: { code } })}</tool_call>`;

/** By the number of the turn. */
type Script = (turn: number, seen: string) => string;

/** It works the answer out in two calls, of which the second needs the first. */
const oracle: Script = (turn, seen) =>
  [call("import math\nn = math.comb(40, 20)"), call("print(n % 1000)")][turn] ?? `\\boxed{${seen.trim()}}`;
const guess: Script = () => "\\boxed{7}";
const escapes: Script = (turn, seen) =>
  turn === 0 ? call("open('/etc/passwd').read()") : `\\boxed{${seen.slice(0, 9)}}`;
const FETCH = (named: string): string =>
  `import urllib.request\nprint(urllib.request.urlopen("http://${named}/", timeout=20).read().decode())`;
/** Known by its number, which no other run of this file has. */
const NAP = `4711.${process.pid}`;
const sleeps: Script = () => call(`import os; os.execvp('sleep', ['sleep', '${NAP}'])`);

function sleepers(): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/u.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(`sleep\0${NAP}`);
    } catch {
      return false;
    }
  });
}

describe.runIf(canHaveSandboxes)("an agent with Python", () => {
  let runner: EnvRunnerProcess;
  beforeAll(async () => {
    runner = await startEnvRunner();
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
  });

  async function play(script: Script, name: string, { at = runner, network = [] as string[] } = {}) {
    let prompt = "";
    await using fake = await startFakeGateway(({ body: { messages } }) => {
      prompt = JSON.stringify(messages);
      const turn = messages.filter(({ role }) => role === "assistant").length;
      return { text: script(turn, String(messages.at(-1)?.content)) };
    });
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: `job/${name}`,
      job: "job",
      task: { id: "t", payload: { question: "The last three digits of 40 over 20?", answer: 820 } },
      seed: 1n,
      agent: { kind: "tool" },
      environment: { kind: "tool", args: { tools: ["python"], maxSteps: 6, sandbox: { backend: "process", network } } },
      limits: { retryLimit: 0, maxPromptTokens: 8192 },
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(at.address) };
    return { ...(await playTask(deps, delivery, new AbortController().signal)), prompt };
  }

  it("is right when it works it out, and wrong when it guesses", async () => {
    const right = await Promise.all(Array.from({ length: 8 }, (_, i) => play(oracle, `g0/s${i}`)));
    expect(right.map(({ reward, failure }) => [reward, failure?.message])).toEqual(right.map(() => [1, ""]));
    expect((await play(guess, "g1/s0")).reward).toBe(0);
    expect((await play(escapes, "g1/s1")).reward).toBe(0);
  });

  it("has its sandbox's level in its record", async () => {
    const { trajectories } = await play(oracle, "g2/s0");
    expect(trajectories[0]?.steps.map(({ info }) => info?.["sandboxLevel"])).toContainEqual(
      expect.stringMatching(/^[AB]$/u),
    );
  });

  it("reaches what its job names, is told so, and reaches nothing else", async () => {
    await using server = createServer((_request, response) => response.end("820"));
    await once(server.listen(0, "0.0.0.0"), "listening");
    const { port } = server.address() as AddressInfo;
    const named = `127.0.0.2:${port}`;
    const fetches: Script = (turn, seen) => [call(FETCH(named))][turn] ?? `\\boxed{${/\d{3}/u.exec(seen)?.[0]}}`;
    const { reward, prompt } = await play(fetches, "g4/s0", { network: [named] });
    expect(reward).toBe(1);
    expect(prompt).toContain(`only ${named} can be reached`);
    expect((await play(fetches, "g4/s1", { network: [`127.0.0.3:${port}`] })).reward).toBe(0);
    expect((await play(fetches, "g4/s2")).reward).toBe(0);
  });

  it("leaves nothing when its env-runner is killed", async () => {
    const own = await startEnvRunner();
    const playing = play(sleeps, "g3/s0", { at: own });
    await waitFor(() => sleepers().length > 0, { what: "the command to run", timeoutMs: 30_000 });
    await own.kill();
    const { failure } = await playing;
    expect(failure?.message).not.toBe("");
    await waitFor(() => sleepers().length === 0, { what: "the command to end" });
  });
});
