// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { OrchestratorApp } from "../app.ts";
import { OrchestratorSetup, type Sealed, type TaskFields } from "../../test-support/orchestrator-setup.ts";

let setup: OrchestratorSetup;
let module: { digest: string };

/** An environment whose first observation tells the agent what to do, and an agent that does it at its second turn. */
const SOURCE = `
import { BaseAgent, BaseEnv, createStep, createTrajectory, defineAgent, defineEnvironment } from "@whetstone/sdk";
const harm = {
  exit: () => process.exit(1),
  loop: () => { for (;;); },
  grow: () => { const all = []; for (;;) all.push(Buffer.alloc(64 << 20, 1)); },
  stray: () => void setTimeout(() => { throw new Error("stray"); }, 1),
};
class Teller extends BaseEnv {
  constructor(args) { super(); this.args = args; this.n = 0; }
  reset() { return { observation: this.args.agent ?? "fine", info: {} }; }
  async step() {
    this.n += 1;
    if (this.n === 2) harm[this.args.environment]?.();
    if (this.args.environment === "stray") await new Promise((resolve) => setTimeout(resolve, 30));
    return { observation: "on", reward: 0.5, terminated: this.n === 3, truncated: false, info: {} };
  }
}
class Doer extends BaseAgent {
  reset() { this.book = createTrajectory(); }
  get trajectory() { return this.book; }
  get chatCompletions() { return [{ role: "user", content: String(this.seen) }]; }
  updateFromEnv(observation) { this.todo ??= observation; this.seen = observation; }
  updateFromModel(response) {
    this.book.steps.push(createStep({ observation: this.seen, modelResponse: response, action: response }));
    if (this.book.steps.length === 2) harm[this.todo]?.();
    return { action: response };
  }
}
export const doer = defineAgent({ kind: "doer", description: "Does.", create: () => new Doer() });
export const teller = defineEnvironment({ kind: "teller", create: (args) => new Teller(args) });
`;

beforeAll(async () => {
  setup = await OrchestratorSetup.open({ WHETSTONE_MODULE_HANG_MS: "4000", WHETSTONE_MODULE_MEMORY_MIB: "300" });
  module = await setup.keepModule(SOURCE);
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(() => setup.beforeEach());
afterEach(() => setup.afterEach());

const start = (settings: object = {}): Promise<OrchestratorApp> =>
  setup.start({ moduleHangMs: 4_000, moduleMemoryMib: 300, ackWaitMs: 15_000, ...settings });

function task(what: { agent?: string; environment?: string } = {}, fields: TaskFields = {}): TaskFields {
  return {
    module,
    agent: { kind: "doer" },
    environment: { kind: "teller" },
    task: { id: JSON.stringify(what), payload: what },
    ...fields,
  };
}

const HARMS = ["exit", "loop", "grow", "stray"];

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** From every process's fourth field of stat: its parent. */
function childrenOf(pid: number): number[] {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return all.map(Number).filter((child) => {
    const stat = statOf(child);
    return Number(stat.slice(stat.lastIndexOf(")")).split(" ")[2]) === pid;
  });
}

/** "" where it has ended. */
function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return "";
  }
}

function allBelow(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...allBelow(child)]);
}

function expectSound({ episode }: Sealed): void {
  expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
  expect(episode.trajectories[0]?.steps).toHaveLength(3);
  expect(episode.calls).toHaveLength(3);
  expect(episode.reward).toBe(1.5);
}

describe("a job's own code", () => {
  it("plays in a process of its own, in orchestrator and env-runner, and beside other jobs", async () => {
    const app = await start();
    const [own, plain] = [await setup.newJob(), await setup.newJob()];
    for (let i = 0; i < 20; i += 1) await setup.send(own, i, task());
    await setup.send(plain, 0);
    const sealed = await Promise.all(Array.from({ length: 20 }, (_, i) => setup.sealed(own, i, 30_000)));
    sealed.forEach(expectSound);
    expect((await setup.sealed(plain, 0)).episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(app.modulePids).toHaveLength(1);
    const [pid] = app.modulePids as [number];
    await setup.setPhase(own, JobPhase.SUCCEEDED);
    await waitFor(() => !isAlive(pid), { timeoutMs: 15_000 });
  });

  it("is described for whoever submits it", async () => {
    const app = await start();
    await using rollouts = createClient(RolloutService, app.address);
    const { kinds } = await rollouts.describeAgents({ module });
    expect(kinds).toMatchObject([{ kind: "doer", description: "Does.", form: 1 }]);
    const unknown = { digest: "0".repeat(64) };
    await expect(rollouts.describeAgents({ module: unknown })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await waitFor(() => app.modulePids.length === 0);
  });

  /** One job for each harm, six episodes each, of which one does it; all at the same time, and beside a job that does none. */
  async function sufferFrom(who: "agent" | "environment"): Promise<Map<string, Sealed>> {
    await start();
    setup.script = () => ({ text: "a", delayMs: 30 });
    const jobs = await Promise.all([...HARMS, "fine"].map(async (harm) => [harm, await setup.newJob()] as const));
    for (const [harm, job] of jobs)
      for (let i = 0; i < 6; i += 1) await setup.send(job, i, task(i === 0 ? { [who]: harm } : {}));
    const crashing = new Map<string, Sealed>();
    for (const [harm, job] of jobs) {
      const [first, ...others] = await Promise.all(Array.from({ length: 6 }, (_, i) => setup.sealed(job, i, 90_000)));
      others.forEach(expectSound);
      crashing.set(harm, first as Sealed);
    }
    expectSound(crashing.get("fine") as Sealed);
    return crashing;
  }

  it("whose agent crashes, hangs, grows or throws unheard fails that episode with its class, and no other", async () => {
    const crashing = await sufferFrom("agent");
    const codes = { exit: "MODULE_CRASHED", loop: "MODULE_HUNG", grow: "MODULE_TOO_LARGE", stray: "MODULE_CRASHED" };
    for (const [harm, code] of Object.entries(codes)) {
      const { episode } = crashing.get(harm) as Sealed;
      expect(episode.terminationReason).toBe(TerminationReason.ERROR);
      expect(episode.failure).toMatchObject({ failureClass: FailureClass.INFRASTRUCTURE, phase: "module", code });
    }
  }, 120_000);

  it("whose environment does so fails that episode as ENVIRONMENT, and no other", async () => {
    const crashing = await sufferFrom("environment");
    const said = { exit: /MODULE_CRASHED/, loop: /MODULE_HUNG/, grow: /MODULE_TOO_LARGE/, stray: /stray/ };
    for (const [harm, message] of Object.entries(said)) {
      const { failure } = (crashing.get(harm) as Sealed).episode;
      expect(failure).toMatchObject({ failureClass: FailureClass.ENVIRONMENT, phase: "step" });
      expect(failure?.message).toMatch(message);
    }
  }, 120_000);

  it("that once ended a process alone is alone from its start the next time", async () => {
    const app = await start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "a", delayMs: 30 });
    await setup.send(job, 0, task({ agent: "exit" }));
    await setup.sealed(job, 0, 30_000);
    await setup.send(job, 1, task());
    await setup.sealed(job, 1);
    const before = app.modulePids[0] as number;
    await setup.send(job, 2, task({ agent: "exit" }));
    await setup.send(job, 3, task());
    await setup.sealed(job, 2, 30_000);
    expectSound(await setup.sealed(job, 3));
    expect(app.modulePids[0]).toBe(before);
  });

  it("is played again after kill -9 of its process", async () => {
    const app = await start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "a", delayMs: 100 });
    for (let i = 0; i < 4; i += 1) await setup.send(job, i, task());
    await waitFor(() => setup.gateway.seen.length >= 2);
    process.kill(app.modulePids[0] as number, "SIGKILL");
    for (let i = 0; i < 4; i += 1) expectSound(await setup.sealed(job, i, 30_000));
  });

  it("that cannot be loaded is a TASK failure with its line", async () => {
    await start();
    const job = await setup.newJob();
    const broken = await setup.keepModule("export const a = 1;\nnull.x;");
    await setup.send(job, 0, task({}, { module: broken }));
    const { episode } = await setup.sealed(job, 0);
    expect(episode.failure).toMatchObject({ failureClass: FailureClass.TASK, phase: "module" });
    expect(episode.failure?.message).toMatch(/cannot be loaded: .*null.*:2:6/);
  });

  it("ends with its episode's deadline, and is cancelled with its job", async () => {
    await start();
    const [late, cancelled] = [await setup.newJob(), await setup.newJob()];
    setup.script = () => ({ text: "a", delayMs: Number.POSITIVE_INFINITY });
    await setup.send(late, 0, task({}, { limits: { episodeTimeout: durationFromMs(1_500) } }));
    expect((await setup.sealed(late, 0, 20_000)).episode.terminationReason).toBe(TerminationReason.DEADLINE);
    await setup.send(cancelled, 0, task());
    const asked = (): boolean => setup.gateway.seen.some(({ session }) => session.startsWith(`${cancelled}.`));
    await waitFor(asked, { timeoutMs: 15_000 });
    const aborted = setup.gateway.aborted;
    await setup.setPhase(cancelled, JobPhase.CANCELLED);
    await waitFor(() => setup.gateway.aborted > aborted);
    await waitFor(async () => (await setup.tasksLeft(cancelled)) === 0);
  });

  it("leaves no process when the orchestrator closes, or is killed, though it loops", async () => {
    const app = await start({ ackWaitMs: 1_000 });
    const job = await setup.newJob();
    await setup.send(job, 0, task());
    await setup.sealed(job, 0, 30_000);
    const before = app.modulePids.flatMap((pid) => [pid, ...allBelow(pid)]);
    await app.close();
    expect(before.filter(isAlive)).toEqual([]);
    await using replica = setup.startReplica();
    await setup.send(job, 1, task({ agent: "loop" }));
    await waitFor(() => setup.gateway.seen.length >= 5, { timeoutMs: 30_000 });
    await delay(300);
    const below = allBelow(replica.pid);
    expect(below.length).toBeGreaterThan(0);
    await replica.kill();
    await waitFor(() => !below.some(isAlive));
  });
});
