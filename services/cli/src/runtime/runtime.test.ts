// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { natsSpec, standIn } from "../../test-support/stand-in-table.ts";
import { dataPaths } from "./layout.ts";
import type { DataPaths } from "./layout.ts";
import { isPortFree } from "./ports.ts";
import { startTime, waitGone } from "./processes.ts";
import { Runtime } from "./runtime.ts";
import type { ServiceSpec } from "./service-spec.ts";
import type { RuntimeState } from "./state-file.ts";
import { readState } from "./state-file.ts";

const RUNTIME = join(import.meta.dirname, "..", "..", "test-support", "stand-in-runtime.ts");

let paths: DataPaths;
const runtimes: Runtime[] = [];
const processes: ChildProcess[] = [];

beforeEach(() => {
  paths = dataPaths(mkdtempSync(join(tmpdir(), "whet-runtime-")));
});

afterEach(async () => {
  await Promise.all(runtimes.splice(0).map((runtime) => runtime.stop()));
  for (const child of processes.splice(0)) child.kill("SIGKILL");
  rmSync(paths.root, { recursive: true, force: true });
});

function runtimeOf(...services: ServiceSpec[]): Runtime {
  const runtime = new Runtime({ paths, model: "none", services: async () => services });
  runtimes.push(runtime);
  return runtime;
}

describe("Runtime", () => {
  it("starts in the order of needs and writes what runs where", async () => {
    const order: string[] = [];
    const [a, b, nats] = [await standIn("a"), await standIn("b", ["a"]), await natsSpec(paths)];
    const note = (name: string) => async (): Promise<void> => void order.push(name);
    const runtime = new Runtime({
      paths,
      model: "m",
      services: async () => [b, a, nats],
      onChange: (states) => {
        for (const { name, phase } of states) if (phase === "ready" && !order.includes(name)) void note(name)();
      },
    });
    runtimes.push(runtime);
    await runtime.start();
    expect(order.indexOf("a")).toBeLessThan(order.indexOf("b"));
    expect(order).toHaveLength(3);
    const state = readState(paths.state) as RuntimeState;
    expect(state).toMatchObject({ phase: "ready", pid: process.pid, model: "m" });
    for (const service of state.services) expect(startTime(service.pid as number)).toBe(service.started);
  });

  it("starts a service again on the same port after it was killed, and counts it", async () => {
    const runtime = runtimeOf(await standIn("a"));
    await runtime.start();
    const [before] = runtime.states();
    process.kill(before?.pid as number, "SIGKILL");
    await expect.poll(() => runtime.states()[0]?.crashes).toBe(1);
    await expect.poll(() => runtime.states()[0]?.phase).toBe("ready");
    const [after] = runtime.states();
    expect(after?.pid).not.toBe(before?.pid);
    expect(after?.ports).toEqual(before?.ports);
  });

  it("waits longer after each crash in a row", async () => {
    const spec = await standIn("a", [], { CRASH_AFTER_MS: "150" });
    const phases: [string, number][] = [];
    const runtime = new Runtime({
      paths,
      model: "m",
      services: async () => [spec],
      onChange: ([state]) => void phases.push([state?.phase ?? "", performance.now()]),
    });
    runtimes.push(runtime);
    await runtime.start();
    await expect.poll(() => runtime.states()[0]?.crashes).toBeGreaterThanOrEqual(3);
    const starts = phases.filter(([phase]) => phase === "starting").map(([, at]) => at);
    const exits = phases.filter(([phase]) => phase === "backoff").map(([, at]) => at);
    expect((starts[1] as number) - (exits[0] as number)).toBeGreaterThanOrEqual(190);
    expect((starts[2] as number) - (exits[1] as number)).toBeGreaterThanOrEqual(390);
  });

  it("gives up a start that cannot work, shows the log and leaves nothing", async () => {
    const good = await standIn("good");
    const bad = await standIn("bad", [], { CRASH_AFTER_MS: "1", NEVER_READY: "1" });
    await expect(runtimeOf(good, bad).start()).rejects.toThrow(/bad exited 3 times.*\n.*"msg":"start"/);
    await expectNothingLeft([good.ports["http"] as number]);
  });

  it("kills what ignores SIGTERM after 5 s", async () => {
    const runtime = runtimeOf(await standIn("a", [], { STUBBORN: "1" }));
    await runtime.start();
    const pid = runtime.states()[0]?.pid as number;
    const begin = performance.now();
    await runtime.stop();
    expect(performance.now() - begin).toBeGreaterThan(4_900);
    expect(startTime(pid)).toBeUndefined();
  });

  it("refuses a second runtime in the same data directory", async () => {
    await runtimeOf(await standIn("a")).start();
    await expect(runtimeOf(await standIn("b")).start()).rejects.toMatchObject({
      exitCode: 2,
      violations: [{ path: paths.lock, reason: expect.stringContaining(`pid ${process.pid}`) }],
    });
    expect(readState(paths.state)?.services[0]?.name).toBe("a");
  });

  it("leaves no process, no port and no lock after SIGINT", async () => {
    const { child, state } = await spawnRuntime();
    child.kill("SIGINT");
    await waitGone(() => child.exitCode !== null, 10_000);
    expect(child.exitCode).toBe(0);
    await expectNothingLeft(portsOf(state), state);
  });

  it("leaves no process and no port after kill -9, and the next one takes the lock over", async () => {
    const { child, state } = await spawnRuntime();
    child.kill("SIGKILL");
    const gone = (): boolean => state.services.every(({ pid }) => startTime(pid as number) === undefined);
    expect(await waitGone(gone, 6_000)).toBe(true);
    // The kernel closes a socket a moment after its process has left the table.
    for (const port of portsOf(state)) await expect.poll(() => isPortFree(port)).toBe(true);
    expect(existsSync(paths.lock)).toBe(true);
    const next = await spawnRuntime();
    expect(JSON.parse(readFileSync(paths.lock, "utf8"))).toMatchObject({ pid: next.child.pid });
  });
});

async function spawnRuntime(): Promise<{ child: ChildProcess; state: RuntimeState }> {
  const child = spawn(process.execPath, [RUNTIME, paths.root], { stdio: ["ignore", "pipe", "inherit"] });
  processes.push(child);
  await new Promise((resolve, reject) => {
    child.stdout?.once("data", resolve);
    child.once("exit", () => reject(new Error("the stand-in runtime did not start")));
  });
  return { child, state: readState(paths.state) as RuntimeState };
}

function portsOf(state: RuntimeState): number[] {
  return state.services.flatMap(({ ports }) => Object.values(ports));
}

async function expectNothingLeft(ports: number[], state?: RuntimeState): Promise<void> {
  for (const { pid } of state?.services ?? []) expect(startTime(pid as number)).toBeUndefined();
  for (const port of ports) expect(await isPortFree(port)).toBe(true);
  expect(existsSync(paths.lock)).toBe(false);
  expect(existsSync(paths.state)).toBe(false);
}
