// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { ConfigError } from "@whetstone/core";
import { type LogFields, type Logger, silentLogger } from "@whetstone/telemetry";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { isProcessDeath } from "./child-process.ts";
import type { ChildLimits } from "./limits.ts";
import { HostProcess } from "./host-process.ts";
import { DEFAULT_ISOLATION, ModuleSandboxes, type WantedIsolation } from "./isolation.ts";
import { ModuleHost } from "./module-host.ts";

const opened: { close(): Promise<void> }[] = [];
const sandboxes = new ModuleSandboxes();
afterEach(async () => {
  await Promise.all(opened.splice(0).map((host) => host.close()));
});
afterAll(() => sandboxes[Symbol.asyncDispose]());

/** What every process of a test is in. */
let isolation: WantedIsolation = DEFAULT_ISOLATION;

const ACT = `
export function act(what, scope) {
  switch (what) {
    case "exit": process.exit(3);
    case "die": setTimeout(() => process.kill(process.pid, "SIGKILL"), 20); return new Promise(() => {});
    case "loop": for (;;);
    case "buffers": { const all = []; for (;;) all.push(Buffer.alloc(64 << 20, 1)); }
    case "heap": { const all = []; for (;;) all.push({ n: [all.length] }); }
    case "stray": setTimeout(() => { throw new Error("stray"); }, 5); return new Promise(() => {});
    case "rejection": void Promise.reject(new Error("unseen")); return new Promise(() => {});
    case "hear": return new Promise((resolve, reject) => scope.signal.addEventListener("abort", () => { globalThis.heard = scope.signal.reason.code; reject(scope.signal.reason); }));
    case "heard": return globalThis.heard;
    case "env": return { ...process.env };
    case "garbage": process.getBuiltinModule("node:fs").writeSync(5, "no message of ours"); return new Promise(() => {});
    case "odd": process.getBuiltinModule("node:fs").writeSync(5, Buffer.from([6, 0, 0, 0, 255, 15, 73, 2, 0, 0])); return new Promise(() => {});
    case "print": for (let i = 0; i < 5000; i++) console.log("line " + i); return "printed";
    case "function": return () => 1;
    case "wait": return new Promise((resolve) => setTimeout(() => resolve("waited"), 200));
    default: throw new Error("bad " + what);
  }
}`;

const limits: ChildLimits = { memoryMiB: 300, hangMs: 5_000, startMs: 10_000 };

function options(source = ACT, logger: Logger = silentLogger) {
  const entry = new URL("../test-support/odd-child.ts", import.meta.url);
  return {
    entry,
    name: "job odd",
    data: { code: new TextEncoder().encode(source) },
    limits,
    logger,
    isolation: sandboxes.isolationOf(isolation),
  };
}

/** Of all processes so far. */
let starts = 0;

function open(source?: string, logger?: Logger): HostProcess {
  const { isolation: own, ...others } = options(source, logger);
  const host = new HostProcess({ ...others, isolation: () => ((starts += 1), own.get()) });
  opened.push(own);
  opened.push(host);
  return host;
}

const KNOWN = new Set(
  "PATH HOME LANG LC_ALL TZ TMPDIR PWD WHETSTONE_MODULE_HOST WHETSTONE_SANDBOX PYTHONDONTWRITEBYTECODE HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy NODE_USE_ENV_PROXY".split(
    " ",
  ),
);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const EACH = [{ where: "without a sandbox", wanted: { none: true, network: [] } }];
if (canHaveSandboxes) EACH.push({ where: "in a sandbox", wanted: { none: false, network: [] } });

describe.each(EACH)("a host process $where", ({ wanted }) => {
  beforeAll(() => {
    isolation = wanted;
  });

  it("answers calls, and carries bytes and errors", async () => {
    const host = open();
    const payload = { bytes: new Uint8Array([1, 2]), big: 2n ** 60n, none: undefined };
    expect(await host.call("echo", payload)).toEqual(payload);
    await expect(host.call("act", "nonsense")).rejects.toMatchObject({
      code: "INTERNAL",
      message: expect.stringMatching(/^bad nonsense \(module-.*:\d+:\d+\)$/),
    });
    await expect(host.call("nothing", 1)).rejects.toMatchObject({ code: "UNIMPLEMENTED" });
  });

  it.each([
    ["exit", "MODULE_CRASHED", /exit code 3/],
    ["garbage", "MODULE_CRASHED", /sent what is no message/],
    ["odd", "MODULE_CRASHED", /sent what is no message/],
    ["die", "MODULE_CRASHED", /SIGKILL/],
    ["loop", "MODULE_HUNG", /did not answer for 5000 ms/],
    ["buffers", "MODULE_TOO_LARGE", /takes \d+ MiB; it may take 300 MiB/],
    ["heap", "MODULE_TOO_LARGE", /it may take 300 MiB/],
  ])(
    "that does %s rejects every call with %s, and the next call starts another",
    async (what, code, message) => {
      const host = open();
      const bystander = host.call("act", "hear").catch((error: unknown) => error);
      await expect(host.call("act", what)).rejects.toMatchObject({ code, message, retry: "safe" });
      const told = await bystander;
      expect(told).toMatchObject({ code });
      expect(isProcessDeath(told)).toBe(true);
      expect(await host.call("echo", "again")).toBe("again");
    },
    30_000,
  );

  it.each(["stray", "rejection"])("fails only the call that a %s error belongs to", async (what) => {
    const host = open();
    const bystander = host.call("act", "wait");
    const pid = await waitFor(() => host.pid);
    const error = await host.call("act", what).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "MODULE_CRASHED",
      message: expect.stringMatching(/nobody caught: (stray|unseen)/) as string,
    });
    expect(isProcessDeath(error)).toBe(false);
    expect(await bystander).toBe("waited");
    expect(host.pid).toBe(pid);
  });

  it("fails a call whose answer cannot be carried, and only that one", async () => {
    const host = open();
    const calls = [
      host.call("echo", 1),
      host.call("act", "function"),
      host.call("echo", () => 1),
      host.call("echo", 2),
    ];
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
  });

  it("carries a cancel", async () => {
    const host = open();
    const controller = new AbortController();
    await host.call("echo", 1);
    const call = host.call("act", "hear", { signal: controller.signal });
    await delay(50);
    controller.abort();
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    await expect.poll(() => host.call("act", "heard")).toBe("CANCELLED");
  });

  it("answers what is asked in a call's name, and nothing in the name of none", async () => {
    const host = open();
    const serve = async (method: string, payload: unknown): Promise<unknown> => ({ method, payload });
    expect(await host.call("ask", 1, { serve })).toEqual({ method: "what", payload: 1 });
    await expect(host.call("ask", 1)).rejects.toMatchObject({ code: "CANCELLED" });
    const refuse = () => Promise.reject(new ConfigError([{ path: "a", reason: "is wrong" }]));
    await expect(host.call("ask", 1, { serve: refuse })).rejects.toMatchObject({ violations: [{ path: "a" }] });
  });

  it("gets no secrets", async () => {
    process.env["WHETSTONE_SECRET"] = "s";
    process.env["AWS_SECRET_ACCESS_KEY"] = "s";
    const environment = (await open().call("act", "env")) as Record<string, string>;
    expect(Object.keys(environment).filter((name) => !KNOWN.has(name))).toEqual([]);
    expect(Object.values(environment)).not.toContain("s");
  });

  it("logs what user code prints, up to a bound", async () => {
    const lines: LogFields[] = [];
    const logger: Logger = { ...silentLogger, info: (_message, fields) => void lines.push(fields ?? {}) };
    const host = open(ACT, logger);
    await host.call("act", "print");
    await expect.poll(() => lines.length).toBeGreaterThan(100);
    await host.close();
    expect(lines[0]).toMatchObject({ stream: "stdout", line: "line 0" });
    expect(lines.length).toBeLessThan(400);
  });

  it("is a TASK failure when the module cannot be loaded, and is not started over and over", async () => {
    const host = open('throw new Error("broken module")');
    await expect(host.call("echo", 1)).rejects.toMatchObject({
      failureClass: "TASK",
      message: expect.stringMatching(/broken module/) as string,
    });
    const started = starts;
    await expect(host.call("echo", 1)).rejects.toMatchObject({ failureClass: "TASK" });
    expect(starts).toBe(started);
  });

  it("is a TASK failure when the module ends its process while it is loaded, three times", async () => {
    const host = open("process.exit(5)");
    for (const code of ["MODULE_CRASHED", "MODULE_CRASHED", "TASK_INVALID", "TASK_INVALID"]) {
      await expect(host.call("echo", 1)).rejects.toMatchObject({ code });
    }
  });

  it("leaves no process after close, not even one that hangs", async () => {
    const host = open();
    await host.call("echo", 1);
    const pid = host.pid as number;
    host.call("act", "loop").catch(() => undefined);
    await delay(50);
    await host.close();
    expect(isAlive(pid)).toBe(false);
    await expect(host.call("echo", 1)).rejects.toMatchObject({ code: "CANCELLED" });
  });
});

describe("a module's host", () => {
  beforeAll(() => {
    isolation = { none: true, network: [] };
  });

  it("keeps suspects apart: many together, some in company, each alone", async () => {
    const host = new ModuleHost(options());
    opened.push(host);
    const leases = [
      await host.enter(0),
      await host.enter(0),
      await host.enter(1),
      await host.enter(2),
      await host.enter(3),
    ];
    expect(new Set(leases.map((lease) => lease.host)).size).toBe(4);
    expect(leases[0]?.host).toBe(leases[1]?.host);
    const third = host.enter(2); // Both cells are taken.
    await delay(20);
    leases[3]?.[Symbol.dispose]();
    expect((await third).host).toBe(leases[3]?.host);
    expect(host.leases).toBe(5);
  });
});
