// SPDX-License-Identifier: Apache-2.0
import type { WireError } from "./wire-error.ts";

// What crosses between a service and the child that runs user code. Messages go in lists: all that one turn of the event
// loop has to say is one message of the channel, whose cost is by message.

export type ToChild =
  | { readonly t: "init"; readonly data: unknown }
  | { readonly t: "call"; readonly id: number; readonly method: string; readonly payload: unknown }
  | { readonly t: "cancel"; readonly id: number }
  /** To what the child asked. */
  | { readonly t: "answer"; readonly id: number; readonly value: unknown }
  | { readonly t: "refused"; readonly id: number; readonly error: WireError }
  | { readonly t: "ping" }
  | { readonly t: "close" };

export type FromChild =
  | { readonly t: "ready" }
  /** The module cannot be loaded. */
  | { readonly t: "broken"; readonly error: WireError }
  | { readonly t: "done"; readonly id: number; readonly value: unknown }
  | { readonly t: "failed"; readonly id: number; readonly error: WireError }
  /** Something of the service, in the name of a call. */
  | {
      readonly t: "ask";
      readonly id: number;
      readonly call: number;
      readonly method: string;
      readonly payload: unknown;
    }
  | { readonly t: "pong" }
  /** An error that belongs to no call ends the process. */
  | { readonly t: "dying"; readonly message: string };

/** Gathers what is said in one turn of the event loop. */
export class Outbox<M> {
  readonly #send: (batch: M[]) => void;
  #batch: M[] = [];

  constructor(send: (batch: M[]) => void) {
    this.#send = send;
  }

  push(message: M): void {
    if (this.#batch.push(message) === 1) setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    const batch = this.#batch;
    this.#batch = [];
    this.#send(batch);
  };
}
