// SPDX-License-Identifier: Apache-2.0
/** Beside each nats-server of the chart, in its pod, with a view of its processes: does what the server needs to be told. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@whetstone/core";
import { guardNats } from "@whetstone/messaging";
import type { Logger } from "@whetstone/telemetry";

const LOOK_MS = 10_000;
const SERVER = "nats-server";
const FILES = ["ca.crt", "tls.crt", "tls.key"];

export interface GuardPlaces {
  readonly monitor: string;
  readonly storeDirectory: string;
  /** Folder of its certificates. Undefined: it has none. */
  readonly tlsPath: string | undefined;
  readonly processes?: string;
  /** Between two looks at the certificates; default 10,000. */
  readonly lookMs?: number | undefined;
}

/** Has it started again when its disk was full and has space again, and has it read its certificates again when they change. */
export async function watchServer(places: GuardPlaces, logger: Logger, signal: AbortSignal): Promise<void> {
  const { monitor, storeDirectory, tlsPath, processes = "/proc", lookMs = LOOK_MS } = places;
  const tell = async (order: NodeJS.Signals): Promise<void> => {
    for (const pid of await serversOf(processes)) process.kill(pid, order);
  };
  const guard = guardNats({
    ...{ monitor, storeDirectory, signal },
    onChange: (refusal) =>
      refusal ? logger.error("nats_refuses_writes", { ...refusal }) : logger.info("nats_takes_writes"),
    restart: async (why) => {
      logger.warn("nats_restarted", { why });
      await tell("SIGTERM"); // The kubelet starts the container again.
    },
  });
  await Promise.all([guard, tlsPath === undefined ? undefined : reload({ tlsPath, lookMs, tell, logger }, signal)]);
}

interface Reload {
  readonly tlsPath: string;
  readonly lookMs: number;
  readonly tell: (order: NodeJS.Signals) => Promise<void>;
  readonly logger: Logger;
}

async function reload({ tlsPath, lookMs, tell, logger }: Reload, signal: AbortSignal): Promise<void> {
  for (let known = await certificates(tlsPath); !signal.aborted; await sleep(lookMs, signal).catch(() => undefined)) {
    const now = await certificates(tlsPath);
    if (now === known) continue;
    known = now;
    await tell("SIGHUP");
    logger.info("certificates_changed");
  }
}

async function certificates(folder: string): Promise<string> {
  return (await Promise.all(FILES.map((file) => readFile(join(folder, file), "utf8").catch(() => "")))).join();
}

async function serversOf(processes: string): Promise<number[]> {
  const pids = (await readdir(processes)).filter((name) => /^\d+$/.test(name));
  const names = await Promise.all(pids.map((pid) => readFile(join(processes, pid, "comm"), "utf8").catch(() => "")));
  return pids.filter((_, index) => names[index]?.trim() === SERVER).map(Number);
}
