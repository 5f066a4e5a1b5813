// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KeptServer } from "./kept-server.ts";

describe.runIf(canHaveSandboxes)("a server is ended in order", { timeout: 60_000 }, () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
  });

  async function ended(script: string) {
    const sandbox = await backend.openWalled();
    const server = new KeptServer(sandbox, { command: ["sh", "-c", script], env: {}, maxOutputBytes: 10_000 });
    for await (const { data } of server.execution.chunks()) if (Buffer.from(data).includes("begun")) break;
    await server.end();
    return await server.execution.result.then(
      ({ stdout, exitCode }) => ({ stdout, exitCode }),
      (error: unknown) => ({ stdout: String(error), exitCode: -1 }),
    );
  }

  it("by the end of its input", async () => {
    expect(await ended("echo begun; cat; echo input ended")).toEqual({ stdout: "begun\ninput ended\n", exitCode: 0 });
  });

  it("by SIGTERM to its group, where that is not enough", async () => {
    const group = `sh -c 'trap "echo child; exit" TERM; echo begun; while :; do sleep 0.1; done' &`;
    const { stdout } = await ended(`trap 'wait; echo parent; exit 5' TERM; ${group} while :; do sleep 0.1; done`);
    expect(stdout).toMatch(/^begun\n(child\nparent|parent\nchild)\n/u);
  });

  it("by SIGKILL, where nothing helps", async () => {
    const { exitCode } = await ended("trap '' TERM; echo begun; while :; do sleep 0.1; done");
    expect(exitCode).not.toBe(0);
  });
});
