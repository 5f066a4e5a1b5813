// SPDX-License-Identifier: Apache-2.0
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";

const MODULE = new URL("./run-service.ts", import.meta.url).href;

function start(close: string, options: string): ChildProcessWithoutNullStreams {
  const code = `import { stopOnSignal } from ${JSON.stringify(MODULE)};
    setInterval(() => {}, 1000);
    stopOnSignal(${close}, ${options});
    console.log("up");`;
  return spawn(process.execPath, ["--input-type=module", "--eval", code]);
}

async function endOf(child: ChildProcessWithoutNullStreams, stop: () => void): Promise<{ code: number; out: string }> {
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  await once(child.stdout, "data");
  stop();
  const [code] = (await once(child, "exit")) as [number];
  return { code, out };
}

describe("stopOnSignal", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("closes once at %s, however often it comes", async (signal) => {
    const child = start(`async () => { console.log("closing"); await new Promise((r) => setTimeout(r, 100)); }`, "{}");
    const { code, out } = await endOf(child, () => {
      child.kill(signal);
      child.kill(signal);
    });
    expect({ code, closings: out.match(/closing/g)?.length }).toEqual({ code: 0, closings: 1 });
  });

  it("ends with code 1 when closing fails", async () => {
    const child = start(`() => Promise.reject(new Error("no"))`, "{}");
    expect((await endOf(child, () => child.kill("SIGTERM"))).code).toBe(1);
  });

  it("ends with code 1 when closing takes too long", async () => {
    const child = start(`() => new Promise(() => {})`, "{ withinMs: 50 }");
    expect((await endOf(child, () => child.kill("SIGTERM"))).code).toBe(1);
  });

  it("stops at the end of standard input when supervised", async () => {
    const child = start(`async () => {}`, "{ supervised: true }");
    expect((await endOf(child, () => child.stdin.end())).code).toBe(0);
  });
});
