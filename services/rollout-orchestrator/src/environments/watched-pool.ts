// SPDX-License-Identifier: Apache-2.0
import type { PoolLoad, PoolRecord } from "@whetstone/proto/events/v1/events";
import { FairGate } from "../slots/fair-gate.ts";
import { type Loads, RunnerSet } from "./runner-set.ts";
import type { Runners } from "./runners.ts";
import type { Pool } from "./pools.ts";

/** A pool whose runners come and go. Its room is shared by weight among jobs, as slots are. */
export class WatchedPool implements Pool {
  readonly #seats = new FairGate(0, { now: () => performance.now() });
  readonly #set = new RunnerSet((limit) => (this.#seats.limit = limit));
  readonly #listeners = new Set<() => void>();
  readonly #jobs = new Set<string>();
  #epoch = 0n;
  #published: { readonly text: string; readonly atMs: number } = { text: "", atMs: Number.NEGATIVE_INFINITY };

  get isOpen(): boolean {
    return this.#set.isOpen;
  }

  setWeight(job: string, weight: number): void {
    this.#jobs.add(job);
    this.#seats.setWeight(job, weight);
  }

  enter(job: string, signal: AbortSignal): Promise<Disposable> {
    return this.#seats.acquire(job, signal);
  }

  forget(job: string): void {
    this.#jobs.delete(job);
    this.#seats.forget(job);
  }

  lease(): (Runners & Disposable) | undefined {
    const lease = this.#set.lease();
    return lease && { addresses: lease.addresses, elastic: true, [Symbol.dispose]: () => lease[Symbol.dispose]() };
  }

  slots(): Promise<number> {
    return Promise.resolve(this.#set.limit);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What a leader wrote; one that was replaced is not heard. Undefined: the pool is gone. */
  update(record: PoolRecord | undefined): void {
    if (record !== undefined && record.epoch < this.#epoch) return;
    this.#epoch = record?.epoch ?? this.#epoch;
    const wasOpen = this.isOpen;
    this.#set.update(record?.runners ?? []);
    if (wasOpen !== this.isOpen) for (const listener of this.#listeners) listener();
  }

  heard({ orchestrator, runners }: PoolLoad, nowMs: number): void {
    const loads: Loads = new Map(runners.map(({ id, sessions }) => [id, sessions]));
    this.#set.report(orchestrator, loads, nowMs);
  }

  /** What others are to be told: at each change, and now and then without one. Undefined: nothing. */
  load(nowMs: number, everyMs: number): { runners: { id: string; sessions: number }[]; waiting: number } | undefined {
    const { ours } = this.#set;
    if (this.#jobs.size === 0 && ours.size === 0 && this.#published.text === "") return undefined;
    const runners = [...ours].map(([id, sessions]) => ({ id, sessions }));
    const waiting = this.#seats.queued;
    const text = this.#jobs.size === 0 && ours.size === 0 ? "" : JSON.stringify([runners, waiting]);
    if (text === this.#published.text && nowMs - this.#published.atMs < everyMs) return undefined;
    this.#published = { text, atMs: nowMs };
    return { runners, waiting };
  }
}
