// SPDX-License-Identifier: Apache-2.0
/** Finds a nats-server that is new enough, and writes its configuration. */
import { execFileSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

import { badInput } from "../cli-error.ts";
import { INSTALLATION, pythonFolders } from "./layout.ts";
import { HOST } from "./ports.ts";

export const OLDEST_NATS_SERVER = "2.12.0";

export interface NatsServer {
  readonly path: string;
  readonly version: string;
}

/**
 * WHETSTONE_NATS_SERVER alone if set, else the first on PATH or beside our Python that is new enough: a distribution's old
 * package does not hide ours. Throws bad input when there is none.
 */
export function findNatsServer(environment: NodeJS.ProcessEnv = process.env): NatsServer {
  const named = environment["WHETSTONE_NATS_SERVER"];
  const candidates = (named ? [named] : searchPath(environment)).filter(isExecutable);
  const found = candidates.map((path) => ({ path, version: versionOf(path) }));
  const good = found.find((server) => isAtLeast(server.version, OLDEST_NATS_SERVER));
  if (good) return good;
  throw badInput([refusal(named, found[0])], "NATS_SERVER");
}

function refusal(named: string | undefined, old: NatsServer | undefined): { path: string; reason: string } {
  const hint = `${INSTALLATION.setupAdvice}, or name a nats-server ${OLDEST_NATS_SERVER} or newer in WHETSTONE_NATS_SERVER`;
  if (old) return { path: old.path, reason: `nats-server ${old.version || "of unknown version"} is too old: ${hint}` };
  const where = named ? `${named} is not an executable file` : "not found on PATH nor beside Python";
  return { path: named ? "WHETSTONE_NATS_SERVER" : "nats-server", reason: `${where}: ${hint}` };
}

function searchPath(environment: NodeJS.ProcessEnv): string[] {
  const folders = (environment["PATH"] ?? "").split(delimiter).filter(Boolean);
  return [...folders, ...pythonFolders(environment)].map((folder) => join(folder, "nats-server"));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** "nats-server: v2.15.1" → "2.15.1"; empty when it says something else. */
function versionOf(path: string): string {
  try {
    const text = execFileSync(path, ["--version"], { encoding: "utf8", timeout: 10_000 });
    return /v?(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? "";
  } catch {
    return "";
  }
}

export function isAtLeast(version: string, oldest: string): boolean {
  const parts = (text: string): number[] => text.split(".").map(Number);
  const [a, b] = [parts(version), parts(oldest)];
  if (a.length < 3 || a.some(Number.isNaN)) return false;
  const index = a.findIndex((part, i) => part !== b[i]);
  return index < 0 || (a[index] ?? 0) > (b[index] ?? 0);
}

/**
 * The server's configuration. Files are synced once a second, not on every write: a process that is killed loses
 * nothing of it, only a machine that loses power does.
 */
export function natsConfig(port: number, storeDirectory: string, monitorPort: number): string {
  return [
    `host: "${HOST}"`,
    `port: ${port}`,
    // Tells when the server refuses writes.
    `http: "${HOST}:${monitorPort}"`,
    `max_payload: 8MB`,
    `jetstream {`,
    `  store_dir: ${JSON.stringify(storeDirectory)}`,
    `  sync_interval: "1s"`,
    // Every job's stream reserves its bound; the default, three quarters of the disk, would refuse the fourth job.
    `  max_file_store: 64TB`,
    `}`,
    "",
  ].join("\n");
}
