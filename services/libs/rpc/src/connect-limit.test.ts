// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { afterEach, describe, expect, it } from "vitest";
import { createClient } from "./index.ts";

let child: ChildProcess | undefined;
const fillers: Socket[] = [];

afterEach(() => {
  child?.kill("SIGKILL");
  for (const socket of fillers.splice(0)) socket.destroy();
});

/** A port whose machine is silent: the process is stopped and its queue full, so that the kernel drops each SYN. */
async function silentPort(): Promise<number> {
  const script = `const s = require("net").createServer(); s.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(s.address().port))`;
  child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  child.kill("SIGSTOP");
  const port = Number(line.toString());
  for (let i = 0; i < 2; i++) fillers.push(connect(port, "127.0.0.1").on("error", () => undefined));
  await Promise.all(fillers.map((socket) => once(socket, "connect")));
  return port;
}

/** Attempts to connect to the port that wait for an answer now, as the kernel has them. */
async function attempts(port: number): Promise<string[]> {
  const { readFile } = await import("node:fs/promises");
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n");
  return lines.flatMap((line) => {
    const [, local = "", remote = "", state = ""] = line.trim().split(/\s+/);
    return remote.endsWith(`:${hex}`) && state === "02" ? [local] : [];
  });
}

describe("an attempt to connect that nobody answers", () => {
  it.runIf(process.platform === "linux")("is given up, and another is made", async () => {
    const port = await silentPort();
    await using client = createClient(JobService, `127.0.0.1:${port}`, { attemptTimeoutMs: 300 });
    const call = client.getJob({ name: "a" }, { deadlineMs: 2_500 }).catch((error: unknown) => error);
    const seen = new Set<string>();
    for (let i = 0; i < 20; i++) {
      for (const local of await attempts(port)) seen.add(local);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(seen.size).toBeGreaterThan(1);
    expect(await call).toMatchObject({ code: "UNAVAILABLE" });
  });
});
