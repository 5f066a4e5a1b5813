// SPDX-License-Identifier: Apache-2.0
// What bench-gateway.ts asks of its load generator, a process of its own, and what that tells.

/** Who is asked. */
export interface Target {
  /** Of its replicas. A session stays at one. */
  readonly urls: readonly string[];
  /** Of the same. */
  readonly pids: readonly number[];
  /** What stands before "/v1/chat/completions"; "{session}" stands for the session's name. */
  readonly prefix: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Takes what a session recorded and closes it, as an orchestrator does; absent: nothing is recorded. */
  readonly close?: { readonly method: "GET" | "DELETE"; readonly path: string };
}

export type Prompt = "identical" | "distinct";

/** As many calls as are answered, `concurrency` at a time, in sessions of `CALLS` independent calls. */
export interface Throughput {
  readonly kind: "throughput";
  readonly target: Target;
  readonly prompt: Prompt;
  readonly concurrency: number;
  readonly seconds: number;
}

/** Calls at a fixed rate, whether the earlier ones are answered or not. */
export interface FixedRate {
  readonly kind: "rate";
  readonly target: Target;
  /** The engine is asked for the same itself, with ids that a gateway made of a prompt. */
  readonly engineUrl: string;
  readonly prompt: Prompt;
  readonly perSecond: number;
  readonly seconds: number;
}

/** Conversations that grow turn by turn, all at once. */
export interface Conversations {
  readonly kind: "conversations";
  readonly target: Target;
  readonly sessions: number;
  readonly turns: number;
}

/** The same, where everybody waits for the last before the next turn: what turns cost beside each other. */
export interface TurnCosts {
  readonly kind: "turns";
  readonly target: Target;
  readonly sessions: number;
  readonly rounds: number;
  readonly early: number;
  readonly late: number;
}

export type Work = Throughput | FixedRate | Conversations | TurnCosts;

export interface Measured {
  readonly requestsPerSecond: number;
  /** Of all replicas together. */
  readonly cpuMsPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Of a fixed rate. */
export interface Added {
  readonly engine: Percentiles;
  readonly gateway: Percentiles;
}

export interface Percentiles {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Of one turn. */
export interface TurnCost extends Percentiles {
  readonly turn: number;
  readonly cpuMs: number;
}

/** Characters of a prompt. */
export const PROMPT_CHARS = 2_048;
/** Independent calls of a session. */
export const CALLS = 10;
/** What a turn of a conversation adds, beside its answer. */
export const TURN_CHARS = 512;
