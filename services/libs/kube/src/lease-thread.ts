// SPDX-License-Identifier: Apache-2.0
// A thread that renews a Lease while the main loop may be busy, and only as long as that one comes back from time to time.
import { writeSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { type Access, HttpLock, type LeaseAddress } from "./lease-http.ts";
import type { HeldRecord } from "./lease-lock.ts";
import { type Holding, Renewal, type Times } from "./renewal.ts";
import { steadyMs, Term } from "./term.ts";

/** What the thread is started with. */
export interface ThreadSetup {
  readonly cells: BigInt64Array;
  readonly address: LeaseAddress;
  readonly access: Access;
  readonly identity: string;
  readonly times: Times;
  readonly known: HeldRecord | undefined;
}

export type ToThread = { readonly kind: "stop" } | { readonly kind: "access"; readonly access: Access };

export type FromThread =
  | { readonly kind: "called"; readonly verb: string; readonly code: string }
  | { readonly kind: "failed"; readonly message: string; readonly leftMs: number }
  | { readonly kind: "lost"; readonly reason: string }
  | { readonly kind: "ended"; readonly known: HeldRecord | undefined };

/** How long a main loop that is alive takes to end its process. */
const GRACE_MS = 3_000;
const clock = {
  now: () => Date.now(),
  monotonicMs: steadyMs,
  sleep: (ms: number, signal?: AbortSignal): Promise<void> => after(ms, undefined, signal && { signal }),
};

const port = parentPort as MessagePort;
const { cells, address, access, identity, times, known } = workerData as ThreadSetup;
const term = new Term(cells);
const stop = new AbortController();
const tell = (message: FromThread): void => port.postMessage(message);
const lock = new HttpLock(address, access, (verb, code) => tell({ kind: "called", verb, code }));
port.on("message", (message: ToThread) => {
  if (message.kind === "stop") stop.abort();
  else lock.use(message.access);
});

const holding: Holding = {
  leftMs: () => term.endsAt - steadyMs(),
  renewed: (startedAt) => {
    if (holding.leftMs() > 0) term.endsAt = startedAt + times.renewMs;
  },
  lose: (reason) => {
    tell({ kind: "lost", reason });
    term.endsAt = 0;
  },
};
const renewal = new Renewal(
  {
    ...{ lock, clock, identity, times },
    mayRenew: () => steadyMs() - term.beatAt < times.heartbeatMs,
    onFailure: (error, leftMs) => tell({ kind: "failed", message: String(error), leftMs }),
  },
  known,
);
tell({ kind: "ended", known: await renewal.run(holding, stop.signal) });
if (!stop.signal.aborted) await endProcess();
lock[Symbol.dispose]();
port.close();

/** The lease is over. A main loop that runs ends the process by itself; one that hangs never would. */
async function endProcess(): Promise<void> {
  await clock.sleep(GRACE_MS, stop.signal).catch(() => undefined);
  if (stop.signal.aborted || steadyMs() - term.beatAt < GRACE_MS) return;
  const text = { level: "error", time: new Date().toISOString(), msg: "main_loop_hangs", identity };
  writeSync(2, `${JSON.stringify(text)}\n`);
  process.kill(process.pid, "SIGKILL");
}
