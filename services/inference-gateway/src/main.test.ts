// SPDX-License-Identifier: Apache-2.0
// The process: it says when it is ready, and it stops when told to, aborting what runs (I9).
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { eventually, TINY } from "../test/harness.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
let engine: FakeEngine;

beforeAll(async () => {
  engine = await FakeEngine.start();
});
afterAll(async () => {
  await engine.kill();
});

interface Ready {
  httpUrl: string;
  grpcAddress: string;
}

function start(env: Record<string, string>): ChildProcess {
  const ports = { WHETSTONE_HTTP_PORT: "0", WHETSTONE_GRPC_PORT: "0", WHETSTONE_ENGINES: `e0=${engine.url}` };
  return spawn(process.execPath, [MAIN], {
    env: { PATH: process.env["PATH"], ...ports, ...env },
    stdio: ["pipe", "ignore", "pipe"],
  });
}

async function readyLine(child: ChildProcess): Promise<Ready> {
  for await (const line of createInterface({ input: child.stderr! })) {
    if (line.includes('"ready"')) return JSON.parse(line) as Ready;
  }
  throw new Error("the process ended before it was ready");
}

describe("main", () => {
  it.each(["SIGTERM", "SIGINT", "stdin"] as const)("stops and aborts what runs: %s", async (how) => {
    const child = start(how === "stdin" ? { WHETSTONE_SUPERVISED: "1" } : {});
    const { httpUrl, grpcAddress } = await readyLine(child);
    await using fleet = createClient(FleetService, grpcAddress);
    await fleet.unfenceEngine({
      id: "e0",
      policy: { policy: "job", policyVersion: 1n, label: "job:1", modelPath: TINY },
    });
    engine.faults = [{ kind: "hang" }];
    const body = JSON.stringify({ model: "job", messages: [{ role: "user", content: "x" }] });
    const answer = fetch(`${httpUrl}/v1/chat/completions`, { method: "POST", body }).catch(() => "cut");
    await eventually(() => engine.running === 1);
    const toldMs = Date.now();
    if (how === "stdin") child.stdin?.end();
    else child.kill(how);
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(Date.now() - toldMs).toBeLessThan(15_000);
    expect(await answer).toBe("cut");
    await eventually(() => engine.running === 0);
  });

  it("names a setting that is wrong", async () => {
    const child = start({ WHETSTONE_MAX_SESSIONS: "many", WHETSTONE_NO_SUCH: "1" });
    let text = "";
    child.stderr?.on("data", (chunk) => (text += String(chunk)));
    expect((await once(child, "exit"))[0]).not.toBe(0);
    expect(text).toContain("maxSessions");
    expect(text).toContain("noSuch: unknown setting");
  });
});
