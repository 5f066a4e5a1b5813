// SPDX-License-Identifier: Apache-2.0
/** The child's side: what a process that runs user code imports. */
import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import { WhetstoneError } from "@whetstone/core";
import { Socket } from "node:net";
import { CHANNEL_FD } from "@whetstone/sandbox";
import { Channel } from "./channel.ts";
import { forwardSockets } from "./forward-sockets.ts";
import { loadModule, NOWHERE } from "./load-module.ts";
import { type FromChild, Outbox, type ToChild } from "./wire.ts";
import { fromWire, toWire } from "./wire-error.ts";

export { hasSocket, socketOf } from "./forward-sockets.ts";
export { connectNamed } from "./named-socket.ts";
export { connectThroughProxy } from "./through-proxy.ts";
export { loadModule, NOWHERE };

// C1: a call is answered once; a cancelled one need not be, nobody listens. C2: an error that nobody caught fails the call
// in whose name it ran; one that belongs to no call ends the process. C3: without its parent the process ends.

/** One call, as its handler sees it. */
export class CallScope {
  /** Takes an error that nobody caught and that came from this call's code, maybe after its end. */
  onStray: (error: unknown) => void;
  /** Asks the service for something. @throws what it refused with */
  readonly ask: (method: string, payload: unknown) => Promise<unknown>;
  #controller: AbortController | undefined;
  #cancelled: WhetstoneError | undefined;

  constructor(onStray: (error: unknown) => void, ask: CallScope["ask"]) {
    this.onStray = onStray;
    this.ask = ask;
  }

  /** Made when somebody asks: most calls are too short to be cancelled. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cancelled) this.#controller.abort(this.#cancelled);
    }
    return this.#controller.signal;
  }

  cancel(message: string): void {
    this.#cancelled ??= new WhetstoneError("CANCELLED", message);
    this.#controller?.abort(this.#cancelled);
  }
}

export interface ChildMethods {
  readonly methods: Readonly<Record<string, (payload: never, scope: CallScope) => unknown>>;
  readonly close?: () => Promise<void>;
}

const scopes = new AsyncLocalStorage<CallScope>();
const CLOSE_MS = 2_000;
const EXIT_STRAY = 70;

/** Serves the parent until it closes or is gone. `init` gets the parent's data; what it throws says why the module cannot be loaded. */
export function serveChild(init: (data: never) => Promise<ChildMethods> | ChildMethods): void {
  new ChildServer(init).start();
}

class ChildServer {
  readonly #init: (data: never) => Promise<ChildMethods> | ChildMethods;
  readonly #outbox = new Outbox<FromChild>((batch) => {
    this.#send(batch);
  });
  readonly #open = new Map<number, CallScope>();
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>();
  #channel: Channel<FromChild[], ToChild[]> | undefined;
  #served: ChildMethods | undefined;
  #nextAsk = 1;

  constructor(init: (data: never) => Promise<ChildMethods> | ChildMethods) {
    this.#init = init;
  }

  start(): void {
    this.#channel = new Channel(new Socket({ fd: CHANNEL_FD, readable: true, writable: true }), {
      take: (batch) => {
        for (const message of batch) this.#take(message);
      },
      broken: this.#stray,
      closed: () => process.exit(0), // C3
    });
    process.on("uncaughtException", this.#stray);
    process.on("unhandledRejection", this.#stray);
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined); // The parent decides.
  }

  #take(message: ToChild): void {
    switch (message.t) {
      case "call":
        this.#call(message.id, message.method, message.payload);
        return;
      case "cancel":
        this.#open.get(message.id)?.cancel("cancelled by the service");
        this.#open.delete(message.id); // C1
        return;
      case "answer":
        this.#answered(message.id)?.resolve(message.value);
        return;
      case "refused":
        this.#answered(message.id)?.reject(fromWire(message.error));
        return;
      case "ping":
        this.#outbox.push({ t: "pong" });
        return;
      case "init":
        void this.#start(message.data);
        return;
      case "close":
        void this.#close();
    }
  }

  /** What cannot be cloned fails its own call, not the others of its batch. */
  #send(batch: FromChild[]): void {
    try {
      this.#channel?.send(batch);
    } catch (error) {
      if (batch.length > 1) for (const message of batch) this.#send([message]);
      else if (batch[0]?.t === "done") this.#send([{ t: "failed", id: batch[0].id, error: toWire(error, NOWHERE) }]);
    }
  }

  async #start(data: unknown): Promise<void> {
    try {
      await forwardSockets();
      this.#served = await this.#init(data as never);
      this.#outbox.push({ t: "ready" });
    } catch (error) {
      this.#outbox.push({ t: "broken", error: toWire(error, NOWHERE) });
    }
  }

  #ask(call: number, method: string, payload: unknown): Promise<unknown> {
    const id = this.#nextAsk++;
    const asked = Promise.withResolvers<unknown>();
    this.#asked.set(id, asked);
    this.#outbox.push({ t: "ask", id, call, method, payload });
    return asked.promise;
  }

  #answered(id: number): PromiseWithResolvers<unknown> | undefined {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    return asked;
  }

  /** Handlers that are not async are answered without a promise. */
  #call(id: number, method: string, payload: unknown): void {
    const onStray = (error: unknown): void => {
      scope.cancel("the episode's code failed elsewhere");
      this.#fail(id, strayError(error));
    };
    const scope = new CallScope(onStray, (asked, what) => this.#ask(id, asked, what));
    this.#open.set(id, scope);
    try {
      const handler = this.#served?.methods[method];
      if (handler === undefined) throw new WhetstoneError("UNIMPLEMENTED", `no method ${method}`);
      const value = scopes.run(scope, handler, payload as never, scope);
      if (value instanceof Promise) {
        value.then(
          (settled) => {
            this.#done(id, settled);
          },
          (error: unknown) => {
            this.#fail(id, error);
          },
        );
      } else this.#done(id, value);
    } catch (error) {
      this.#fail(id, error);
    }
  }

  #done(id: number, value: unknown): void {
    if (this.#open.delete(id)) this.#outbox.push({ t: "done", id, value });
  }

  #fail(id: number, error: unknown): void {
    if (this.#open.delete(id)) this.#outbox.push({ t: "failed", id, error: toWire(error, NOWHERE) });
  }

  /** C2 */
  readonly #stray = (error: unknown): void => {
    process.stderr.write(`${inspect(error)}\n`);
    const scope = scopes.getStore();
    if (scope !== undefined) {
      scope.onStray(error);
      return;
    }
    const message = toWire(error, NOWHERE).message;
    this.#channel?.send([{ t: "dying", message }], () => process.exit(EXIT_STRAY));
    setTimeout(() => process.exit(EXIT_STRAY), CLOSE_MS);
  };

  async #close(): Promise<void> {
    setTimeout(() => process.exit(0), CLOSE_MS).unref();
    for (const scope of this.#open.values()) scope.cancel("the service is closing");
    await this.#served?.close?.();
    process.exit(0);
  }
}

/** What the call gets that the error came from; it is known to be this one's, so nobody else is a suspect. */
export function strayError(error: unknown): WhetstoneError {
  const { message } = WhetstoneError.from(error);
  return new WhetstoneError("MODULE_CRASHED", `an error that nobody caught: ${message}`, { cause: error });
}
