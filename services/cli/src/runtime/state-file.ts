// SPDX-License-Identifier: Apache-2.0
/** `<data>/runtime.json`: what runs where, for other `whet` commands. Written whole, by rename. */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";

export type ServicePhase = "waiting" | "starting" | "ready" | "backoff" | "stopping" | "stopped" | "failed";

export interface ServiceState {
  readonly name: string;
  readonly phase: ServicePhase;
  /** Absent: not running now. */
  readonly pid?: number;
  /** Start time as the system counts it; tells the process from a later one with the same id. */
  readonly started?: string;
  /** Port by purpose: {"grpc": 4001}. */
  readonly ports: Readonly<Record<string, number>>;
  /** Exits that nobody asked for. */
  readonly crashes: number;
  readonly log: string;
}

export interface RuntimeState {
  readonly format: "whetstone.runtime/v1";
  readonly instance: string;
  readonly pid: number;
  /** RFC 3339. */
  readonly startedAt: string;
  /** "ready" once every service was ready; restarts do not change it. */
  readonly phase: "starting" | "ready" | "stopping";
  /** The engines' first model folder. */
  readonly model: string;
  readonly services: readonly ServiceState[];
}

/** False: it could not be written, as on a full disk; the former file is as it was. */
export function writeState(path: string, state: RuntimeState): boolean {
  const draft = `${path}.${process.pid}`;
  try {
    writeFileSync(draft, `${JSON.stringify(state, null, 2)}\n`);
    renameSync(draft, path);
    return true;
  } catch {
    rmSync(draft, { force: true });
    return false;
  }
}

/** Undefined: no such file, or not ours. */
export function readState(path: string): RuntimeState | undefined {
  try {
    const state = JSON.parse(readFileSync(path, "utf8")) as RuntimeState;
    return state.format === "whetstone.runtime/v1" ? state : undefined;
  } catch {
    return undefined;
  }
}

export function removeState(path: string): void {
  rmSync(path, { force: true });
}

/** The port of a service in a running runtime. Undefined: it has none. */
export function portOf(state: RuntimeState, service: string, purpose: string): number | undefined {
  return state.services.find((candidate) => candidate.name === service)?.ports[purpose];
}
