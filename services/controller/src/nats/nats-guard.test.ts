// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, it } from "vitest";
import { watchServer } from "./nats-guard.ts";

// What nats-server itself does is shown in libs/messaging: here a process that says which orders it got stands for it.
const SAYS = `for (const s of ["SIGHUP", "SIGTERM"]) process.on(s, () => console.log(s)); setInterval(() => {}, 1000); console.log("up")`;

let folder: string;
let stop: AbortController;
let child: ReturnType<typeof spawn>;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-guard-"));
  stop = new AbortController();
  child = spawn(process.execPath, ["-e", SAYS], { stdio: ["ignore", "pipe", "inherit"] });
  await said("up");
  for (const [pid, name] of [
    [child.pid, "nats-server"],
    [process.pid, "node"],
  ] as const) {
    mkdirSync(join(folder, "proc", String(pid)), { recursive: true });
    writeFileSync(join(folder, "proc", String(pid), "comm"), `${name}\n`);
  }
  for (const file of ["ca.crt", "tls.crt", "tls.key"]) writeFileSync(join(folder, file), "one");
});
afterEach(() => {
  stop.abort();
  child.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

async function said(word: string): Promise<void> {
  for (let text = ""; !text.includes(word);) text += String((await once(child.stdout!, "data"))[0]);
}

function watch(monitor: string, lookMs?: number): Promise<void> {
  const places = { monitor, storeDirectory: folder, tlsPath: folder, processes: join(folder, "proc"), lookMs };
  return watchServer(places, silentLogger, stop.signal);
}

it("ends a nats-server that refuses writes once its disk has space", async () => {
  const error = "JetStream stream '$G > WS_EPISODE_a' write error: no space left on device";
  const server = createServer((_, answer) =>
    answer.writeHead(503).end(JSON.stringify({ status: "unavailable", error })),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const watching = watch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await said("SIGTERM");
  stop.abort();
  await watching;
  server.close();
});

it("tells nats-server to read its certificates again when they change, and nobody else", async () => {
  const watching = watch("http://127.0.0.1:1", 50);
  await new Promise((resolve) => setTimeout(resolve, 300));
  writeFileSync(join(folder, "tls.crt"), "two");
  await said("SIGHUP");
  stop.abort();
  await watching;
});
