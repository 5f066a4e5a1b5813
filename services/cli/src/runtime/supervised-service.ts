// SPDX-License-Identifier: Apache-2.0
/** One service kept running: start, wait until healthy, restart with back-off, stop for good. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

import { crashesAfter, restartDelay } from "./backoff.ts";
import { CliError } from "../cli-error.ts";
import { isHealthy } from "./health.ts";
import type { LogFile } from "./log-file.ts";
import { tailOf } from "./log-file.ts";
import { groupAlive, signalGroup, startTime, waitGone } from "./processes.ts";
import type { ServiceSpec } from "./service-spec.ts";
import { spawnChild } from "./spawn-child.ts";
import type { ServicePhase, ServiceState } from "./state-file.ts";

const POLL_MS = 50;
/** A service that is not ready by then is killed and counts as crashed. */
const READY_WITHIN_MS = 60_000;
/** Exits before it was ever ready, in a row, that end the runtime's start. */
const START_ATTEMPTS = 3;
/** For the end of its output; somebody outside its group may hold the pipe open. */
const LAST_WORDS_MS = 200;
export const STOP_WITHIN_MS = 5_000;

export class SupervisedService {
  readonly spec: ServiceSpec;
  /** Resolves when it is ready for the first time; rejects when it cannot be started. */
  readonly firstReady: Promise<void>;
  readonly #log: LogFile;
  readonly #onChange: () => void;
  readonly #stopping = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #phase: ServicePhase = "waiting";
  #child: ChildProcess | undefined;
  #started: string | undefined;
  #crashes = 0;
  #wasReady = false;
  #loop: Promise<void> | undefined;

  constructor(spec: ServiceSpec, log: LogFile, onChange: () => void) {
    this.spec = spec;
    this.#log = log;
    this.#onChange = onChange;
    this.firstReady = this.#first.promise;
    this.firstReady.catch(() => {}); // observed by whoever starts the runtime, if anybody still waits
  }

  start(): void {
    if (!this.#stopping.signal.aborted) this.#loop ??= this.#keepRunning();
  }

  /** SIGTERM to the group, SIGKILL after `withinMs`. Safe to repeat; with 0 it kills at once. */
  async stop(withinMs = STOP_WITHIN_MS): Promise<void> {
    this.#stopping.abort();
    const pid = this.#child?.pid;
    if (pid !== undefined) {
      this.#become("stopping");
      await endGroup(pid, withinMs);
    }
    await this.#loop;
    this.#first.reject(new CliError("STOPPED", `${this.spec.name} was stopped`));
    if (this.#phase !== "failed") this.#become("stopped");
    this.#log.close();
  }

  /** Ends the process; it is started again as after any exit. */
  restart(why: string): void {
    this.#log.write(Buffer.from(`[whet] restarted: ${why}\n`));
    if (this.#child?.pid !== undefined) signalGroup(this.#child.pid, "SIGTERM");
  }

  snapshot(): ServiceState {
    const running = this.#child?.pid === undefined ? {} : { pid: this.#child.pid, started: this.#started ?? "" };
    const { name, ports } = this.spec;
    return { name, phase: this.#phase, ...running, ports, crashes: this.#crashes, log: this.#log.path };
  }

  async #keepRunning(): Promise<void> {
    let inARow = 0;
    while (!this.#stopping.signal.aborted) {
      const healthyMs = await this.#runOnce();
      if (this.#stopping.signal.aborted) return;
      this.#crashes += 1;
      inARow = crashesAfter(inARow, healthyMs);
      if (!this.#wasReady && inARow >= START_ATTEMPTS) {
        this.#become("failed");
        this.#first.reject(this.#startFailure());
        return;
      }
      this.#become("backoff");
      await delay(restartDelay(inARow), undefined, { signal: this.#stopping.signal }).catch(() => {});
    }
  }

  /** Runs the process until it exits. Answers how long it was ready, in milliseconds; 0: never. */
  async #runOnce(): Promise<number> {
    const child = spawnChild(this.spec, this.#log);
    const exit = new AbortController();
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.once("exit", () => {
      exit.abort();
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL"); // what it may have left in its group
    });
    child.once("error", (error) => this.#spawnFailed(error, exit));
    this.#child = child;
    this.#started = child.pid === undefined ? undefined : startTime(child.pid);
    this.#become("starting");
    const readyAt = await this.#untilReady(exit.signal);
    if (readyAt === undefined && !exit.signal.aborted && child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
    await aborted(exit.signal);
    await Promise.race([closed, delay(LAST_WORDS_MS)]);
    this.#child = undefined;
    return readyAt === undefined ? 0 : performance.now() - readyAt;
  }

  /** The time it became ready; undefined when it exited or took too long. */
  async #untilReady(exited: AbortSignal): Promise<number | undefined> {
    const end = performance.now() + READY_WITHIN_MS;
    while (!exited.aborted && performance.now() < end) {
      if (await isHealthy(this.spec.health)) {
        if (exited.aborted) return undefined; // another process answers on its port
        if (!this.#stopping.signal.aborted) this.#become("ready");
        this.#wasReady = true;
        this.#first.resolve();
        return performance.now();
      }
      await delay(POLL_MS, undefined, { signal: exited }).catch(() => {});
    }
    return undefined;
  }

  #spawnFailed(error: Error, exit: AbortController): void {
    this.#log.write(Buffer.from(`cannot start ${this.spec.command[0]}: ${error.message}\n`));
    exit.abort();
  }

  #startFailure(): CliError {
    const tail = tailOf(this.#log.path, 8).map((line) => `  | ${line.slice(0, 300)}`);
    const head = `${this.spec.name} exited ${START_ATTEMPTS} times before it was ready; its log ${this.#log.path} ends:`;
    return new CliError("SERVICE_FAILED", [head, ...tail].join("\n"));
  }

  #become(phase: ServicePhase): void {
    this.#phase = phase;
    this.#onChange();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve())));
}

/** Ends a process group: SIGTERM, then SIGKILL after `withinMs`. Returns when it is gone. */
export async function endGroup(group: number, withinMs: number, gone = () => !groupAlive(group)): Promise<void> {
  if (withinMs > 0) signalGroup(group, "SIGTERM");
  if (withinMs > 0 && (await waitGone(gone, withinMs))) return;
  signalGroup(group, "SIGKILL");
  await waitGone(gone, 2_000);
}
