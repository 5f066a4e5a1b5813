// SPDX-License-Identifier: Apache-2.0
import { Worker } from "node:worker_threads";
import type { Kube } from "./kube.ts";
import type { Lead } from "./lead.ts";
import type { Access } from "./lease-http.ts";
import type { HeldRecord } from "./lease-lock.ts";
import type { FromThread, ThreadSetup, ToThread } from "./lease-thread.ts";
import type { RenewalOptions } from "./renewal.ts";
import { steadyMs, type Term } from "./term.ts";

const ENTRY = new URL("./lease-thread.ts", import.meta.url);
const BEAT_MS = 500;
/** Tokens and certificates change about once an hour. */
const REFRESH_MS = 10_000;
/** It holds one connection and one object. */
const LIMITS = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 };

export interface ThreadOptions extends Pick<RenewalOptions, "identity" | "times" | "onFailure"> {
  readonly kube: Kube;
  readonly lease: string;
  readonly term: Term;
  readonly access: Access;
  readonly known: HeldRecord | undefined;
}

/** Renews in a thread with a connection of its own, so that neither a busy main loop nor a queue of calls costs the lease. */
export class RenewalThread {
  readonly #options: ThreadOptions;
  #access: Access;

  constructor(options: ThreadOptions) {
    this.#options = options;
    this.#access = options.access;
  }

  /** How the thread can reach the server. Undefined: it cannot, the way leads through a proxy. */
  static async access({ credentials }: Kube): Promise<Access | undefined> {
    const { headers, connect } = await credentials.current();
    if (connect.type === "proxy" || connect.type === "socks") return undefined;
    return { headers, tls: connect.type === "agent" ? connect.connect : {} };
  }

  /** @returns what the lease says at the end, as far as the thread knows */
  async run(lead: Lead, stop: AbortSignal): Promise<HeldRecord | undefined> {
    const { term } = this.#options;
    const beat = (): void => void (term.beatAt = steadyMs());
    beat();
    const worker = this.#start();
    const timers = [setInterval(beat, BEAT_MS), setInterval(() => void this.#refresh(worker), REFRESH_MS)];
    const tell = (message: ToThread): void => worker.postMessage(message);
    const onStop = (): void => tell({ kind: "stop" });
    stop.addEventListener("abort", onStop, { once: true });
    if (stop.aborted) onStop();
    try {
      return await this.#follow(worker, lead, stop);
    } finally {
      for (const timer of timers) clearInterval(timer);
      stop.removeEventListener("abort", onStop);
    }
  }

  #start(): Worker {
    const { term, identity, times, known, kube, lease } = this.#options;
    const address = { server: kube.credentials.server, namespace: kube.namespace, name: lease };
    const setup: ThreadSetup = { cells: term.cells, address, access: this.#access, identity, times, known };
    return new Worker(ENTRY, { workerData: setup, resourceLimits: LIMITS, execArgv: [], name: "lease" });
  }

  /** Until it has ended. One that ends before it is told to ends the lead. */
  #follow(worker: Worker, lead: Lead, stop: AbortSignal): Promise<HeldRecord | undefined> {
    let known: HeldRecord | undefined;
    worker.on("message", (message: FromThread) => {
      if (message.kind === "ended") ({ known } = message);
      else this.#heard(message, lead, worker);
    });
    return new Promise((resolve) => {
      worker.once("error", (error: Error) => lead.lose(`the thread that renews has failed: ${error.message}`));
      worker.once("exit", () => {
        if (!stop.aborted) lead.lose("the thread that renews has ended");
        resolve(known);
      });
    });
  }

  #heard(message: Exclude<FromThread, { kind: "ended" }>, lead: Lead, worker: Worker): void {
    const { kube, onFailure } = this.#options;
    if (message.kind === "lost") lead.lose(message.reason);
    else if (message.kind === "failed") onFailure(message.message, message.leftMs);
    else {
      kube.instruments.request(message.verb, "Lease", message.code);
      if (message.code !== "401") return;
      kube.credentials.refused();
      void this.#refresh(worker);
    }
  }

  /** What cannot be read now is read the next time. */
  async #refresh(worker: Worker): Promise<void> {
    const access = await RenewalThread.access(this.#options.kube).catch(() => undefined);
    if (access === undefined || JSON.stringify(access) === JSON.stringify(this.#access)) return;
    this.#access = access;
    worker.postMessage({ kind: "access", access } satisfies ToThread);
  }
}
