// SPDX-License-Identifier: Apache-2.0
// Two gateways of which each in turn is told to end, with less time than an episode takes: its sessions go on at the other one,
// and no episode is played again for it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
const DRAIN_MS = 2_000;
const TURNS = 10;
const PAUSE_MS = 600;
/** So many that episodes are played still when the second gateway is told to end: the first takes its time to begin again. */
const STEPS = 5;
const EPISODES = 16;

/** An environment that takes its time. */
const MODULE = `
import { BaseAgent, createStep, createTrajectory, defineAgent, defineEnvironment, MultiTurnEnvironment } from "@whetstone/sdk";
class Waits extends MultiTurnEnvironment {
  constructor() { super({ question: "go" }, { maxTurns: ${TURNS} }); }
  async getRewardAndNextObs(_task, action) {
    await new Promise((resolve) => setTimeout(resolve, ${PAUSE_MS}));
    return { reward: String(action).length % 2, nextObservation: { question: "on" } };
  }
}
class Goes extends BaseAgent {
  chatCompletions = [];
  trajectory = createTrajectory();
  reset() {}
  updateFromEnv(observation) { this.chatCompletions.push({ role: "user", content: observation?.question ?? "on" }); }
  updateFromModel(response) {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: response }));
    return { action: response };
  }
}
export const waits = defineEnvironment({ kind: "waits", create: () => new Waits() });
export const goes = defineAgent({ kind: "goes", create: () => new Goes() });
`;

/** A program with a client of its own: it asks again when its connection is lost, as clients of vendors do. */
const PROGRAM = `
import json, os, time, urllib.error, urllib.request
def ask(messages):
    body = json.dumps({"model": os.environ["WHETSTONE_MODEL"], "messages": messages}).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    for _ in range(40):
        try:
            request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
            return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            if error.code != 503: raise
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit(1)
messages, length = [], 0
for _ in range(${TURNS}):
    messages.append({"role": "user", "content": "on"})
    answer = ask(messages)
    length += len(answer)
    messages.append({"role": "assistant", "content": answer})
    time.sleep(${PAUSE_MS / 1000})
with open(os.environ["WHETSTONE_RESULT_FILE"], "w") as file:
    json.dump({"reward": length % 2}, file)
`;

describe("a job of long episodes over two gateways", () => {
  let runtime: LocalRuntime;
  let folder: string;

  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/leaving-"));
    writeFileSync(join(folder, "waits.ts"), MODULE);
    process.env["WHETSTONE_DRAIN_MS"] = String(DRAIN_MS);
    runtime = await startLocalRuntime("--gateways", "2", "--engines", "2");
  }, 240_000);
  afterAll(async () => {
    delete process.env["WHETSTONE_DRAIN_MS"];
    await runtime?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const gateway = (name: string) => {
    const found = runtime.services().find((service) => service.name === name);
    if (!found) throw new Error(`no service ${name}`);
    return found;
  };

  /** Of a gateway since it began. */
  async function metric(name: string, of: RegExp): Promise<number> {
    const text = await (await fetch(`http://${runtime.address(name, "http")}/metrics`)).text();
    return Number(of.exec(text)?.[1] ?? 0);
  }

  const received = (name: string): Promise<number> =>
    metric(name, /gateway_handovers_total\{[^}]*"received"[^}]*\} (\d+)/);
  const sessions = (name: string): Promise<number> => metric(name, /gateway_sessions(?:\{[^}]*\})? (\d+)/);

  /** Whether it answers calls of a job. */
  async function serves(name: string, job: string): Promise<boolean> {
    const answer = await fetch(`http://${runtime.address(name, "http")}/v1/models/${job}`);
    return answer.status === 200;
  }

  /** Tells it to end while episodes are there, and waits for the one that takes its place. */
  async function leave(name: string, other: string, job: string): Promise<void> {
    // One that has just begun knows no job until the controller has told it of the engines.
    await waitFor(() => serves(other, job), { timeoutMs: 60_000 });
    await waitFor(async () => (await sessions(name)) >= EPISODES / 4, { timeoutMs: 60_000 });
    const { pid = 0, crashes } = gateway(name);
    const before = await received(other);
    process.kill(pid, "SIGTERM");
    await waitFor(() => gateway(name).crashes > crashes && gateway(name).phase === "ready", { timeoutMs: 30_000 });
    expect(await received(other)).toBeGreaterThan(before);
  }

  it.each([
    ["its own agent", { agent: { kind: "goes" }, environment: { kind: "waits" }, module: { path: "./waits.ts" } }],
    ["a program with a key", { agent: { kind: "command", args: { command: ["python3", "-c", PROGRAM] } } }],
  ] as readonly [string, JsonObject][])(
    "plays on with %s",
    async (kind, how) => {
      const name = kind.replaceAll(" ", "-");
      const {
        environment: _,
        agent: __,
        limits: ___,
        ...common
      } = smallJob(name, runtime.model, { steps: STEPS, groups: 4, lag: 1 });
      // One try each: whatever is lost is voided.
      const limits = {
        maxSteps: TURNS,
        maxPromptTokens: 512,
        maxResponseTokens: 512,
        episodeTimeout: "120s",
        retryLimit: 0,
      };
      const job = { ...common, ...how, limits };
      writeFileSync(join(folder, "job.json"), JSON.stringify(job));
      const submitted = runtime.whet("train", join(folder, "job.json"), "--no-watch");
      expect(submitted.status, submitted.output).toBe(0);
      await leave("gateway", "gateway-1", name);
      await leave("gateway-1", "gateway", name);
      await using jobs = createClient(JobService, runtime.address("controller"));
      await waitFor(async () => (await jobs.getJob({ name })).job?.status?.phase === JobPhase.SUCCEEDED, {
        timeoutMs: 200_000,
      });
      const audit = runtime.whet("jobs", "audit", name);
      const sound = {
        lost: 0,
        duplicated: 0,
        stale: 0,
        unlabelled: 0,
        inFlight: 0,
        voided: 0,
        trained: EPISODES * STEPS,
      };
      expect(audit.json, audit.output).toMatchObject(sound);
    },
    300_000,
  );
});
