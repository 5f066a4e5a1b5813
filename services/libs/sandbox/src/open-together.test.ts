// SPDX-License-Identifier: Apache-2.0
import { Gate } from "@whetstone/core";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { openTogether } from "./open-together.ts";
import { ProcessBackend } from "./process/process-backend.ts";
import type { OpenOptions, Sandbox, SandboxBackend } from "./sandbox.ts";

/** Gives out a number of them; whoever wants one more waits, as for the pods of a pool. */
function bounded(backend: ProcessBackend, gate: Gate): SandboxBackend {
  const open = async (options: OpenOptions = {}): Promise<Sandbox> => {
    const slot = await gate.acquire(options.signal);
    const sandbox = await backend.open({ ...options, signal: undefined });
    const close = sandbox.close.bind(sandbox);
    vi.spyOn(sandbox, "close").mockImplementation(async () => {
      await close();
      slot[Symbol.dispose]();
    });
    return sandbox;
  };
  return { level: backend.level, open } as SandboxBackend;
}

describe.runIf(canHaveSandboxes)("two sandboxes or none", () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(() => backend[Symbol.asyncDispose]());

  it("are had by all who want two at once, however many, where there are only two", async () => {
    const gate = new Gate(2);
    const scarce = bounded(backend, gate);
    const use = async (): Promise<string> => {
      const [one, other] = await openTogether(scarce, {}, {}, { patienceMs: 200 });
      const { stdout } = await one.exec(["echo", "both"]).result;
      await Promise.all([one.close(), other.close()]);
      return stdout;
    };
    expect(await Promise.all(Array.from({ length: 8 }, use))).toEqual(Array(8).fill("both\n"));
    expect(gate.active).toBe(0);
  });

  it("are none when the signal aborts, and when the second fails by itself", async () => {
    const gate = new Gate(1);
    const scarce = bounded(backend, gate);
    const signal = AbortSignal.timeout(300);
    await expect(openTogether(scarce, {}, {}, { signal })).rejects.toThrow("timeout");
    await expect(openTogether(backend, {}, { image: "none" })).rejects.toThrow("has no images");
    expect(gate.active).toBe(0);
  });
});
