// SPDX-License-Identifier: Apache-2.0
// The command as a process: how it ends is what is tested.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { INSTALLATION } from "../runtime/layout.ts";

/** Far below the runtime's own time to become ready, on a busy machine. */
const WITHIN_MS = 60_000;

async function whet(...args: string[]): Promise<{ code: number | null; said: string }> {
  const child = spawn(process.execPath, [INSTALLATION.main, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += String(text)));
  const timer = setTimeout(() => child.kill("SIGKILL"), WITHIN_MS);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  return { code, said };
}

it("whet up --detach that fails says why and ends", { timeout: WITHIN_MS + 10_000 }, async () => {
  const data = mkdtempSync(join(tmpdir(), "whet-up-"));
  const taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port } = taken.address() as { port: number };
  const { code, said } = await whet("up", "--detach", "--data", data, "--controller-port", String(port));
  taken.close();
  rmSync(data, { recursive: true });
  expect([code, said]).toEqual([2, expect.stringContaining(`port ${port} is in use`)]);
});

it.runIf(existsSync("/proc/self"))(
  "whet up --data where no folder can be made is refused",
  { timeout: WITHIN_MS + 10_000 },
  async () => {
    const { code, said } = await whet("up", "--data", "/proc/nope");
    expect([code, said]).toEqual([2, expect.stringContaining("/proc/nope: cannot be written")]);
  },
);

it.runIf(existsSync("/proc/self"))(
  "whet up --weights-dir where no folder can be made is refused",
  { timeout: WITHIN_MS + 10_000 },
  async () => {
    const { code, said } = await whet("up", "--data", join(tmpdir(), "whet-up-never"), "--weights-dir", "/proc/nope");
    expect([code, said]).toEqual([2, expect.stringMatching(/--weights-dir: \/proc\/nope cannot be written/)]);
    expect(existsSync(join(tmpdir(), "whet-up-never"))).toBe(false);
  },
);
