// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { buildConnector, Client, type Dispatcher } from "undici";

/** A request's handler that says when its connection is free again. */
export interface PooledHandler extends Dispatcher.DispatchHandler {
  /** Set by the pool, called once: after the answer's end, or after the error. */
  release: (() => void) | undefined;
  /** Nobody waits for it any more: it is skipped when its turn comes. */
  readonly cancelled: boolean;
  /** The pool refuses it or was closed. */
  refuse(error: Error): void;
}

export interface ConnectionPoolOptions {
  /** Most connections, at least 1. They are opened as needed. */
  readonly connections: number;
  /** Requests beyond this that wait for a connection are refused. Default 100,000. */
  readonly maxWaiting?: number;
  /** How to connect; default: as any server. */
  readonly connect?: buildConnector.connector | undefined;
}

interface Waiting {
  readonly options: Dispatcher.DispatchOptions;
  readonly handler: PooledHandler;
}

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_MS = 60_000;

/**
 * Connections to one server, one request at a time each. undici's own Pool looks through all its connections for a free
 * one at every request; this one keeps the free ones on a stack: with thousands of connections it is the difference
 * between flat and linear. The newest free connection goes first, so that what is not needed gets idle and closes.
 */
export class ConnectionPool {
  readonly #origin: string;
  readonly #options: Client.Options;
  readonly #limit: number;
  readonly #maxWaiting: number;
  readonly #all: Client[] = [];
  readonly #free: Client[] = [];
  #waiting: Waiting[] = [];
  #nextWaiting = 0;
  #closed = false;

  constructor(origin: string, options: ConnectionPoolOptions) {
    const { connections, maxWaiting = 100_000 } = options;
    this.#origin = origin;
    this.#limit = connections;
    this.#maxWaiting = maxWaiting;
    const connect = options.connect ?? buildConnector({ timeout: CONNECT_TIMEOUT_MS });
    // No timeouts of its own: deadlines come with each request.
    const common = { headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: IDLE_MS };
    this.#options = { ...common, connect, pipelining: 1, allowH2: false };
  }

  /** Connections made so far; one that was closed by the server is made anew when it is used. */
  get connections(): number {
    return this.#all.length;
  }

  send(options: Dispatcher.DispatchOptions, handler: PooledHandler): void {
    const client = this.#closed ? undefined : (this.#free.pop() ?? this.#open());
    if (client !== undefined) this.#dispatch(client, options, handler);
    else this.#wait({ options, handler });
  }

  /** Ends all connections, and with them what runs there. Requests that wait, and later ones, open new ones. */
  reset(): void {
    this.#free.length = 0;
    const lost = new WhetstoneError("UNAVAILABLE", "the model server has not answered for too long");
    for (const client of this.#all.splice(0)) void client.destroy(lost);
  }

  /** Closes all connections at once; requests that run or wait are refused. */
  async destroy(): Promise<void> {
    this.#closed = true;
    for (const { handler } of this.#waiting.splice(0).slice(this.#nextWaiting)) handler.refuse(closedError());
    this.#nextWaiting = 0;
    await Promise.all(this.#all.map((client) => client.destroy()));
  }

  #open(): Client | undefined {
    if (this.#all.length >= this.#limit) return undefined;
    const client = new Client(this.#origin, this.#options);
    this.#all.push(client);
    return client;
  }

  #dispatch(client: Client, options: Dispatcher.DispatchOptions, handler: PooledHandler): void {
    handler.release = () => {
      handler.release = undefined;
      this.#passOn(client);
    };
    client.dispatch(options, handler);
  }

  #wait(waiting: Waiting): void {
    if (this.#closed) waiting.handler.refuse(closedError());
    else if (this.#waiting.length - this.#nextWaiting < this.#maxWaiting) this.#waiting.push(waiting);
    else waiting.handler.refuse(fullError(this.#limit, this.#maxWaiting));
  }

  #passOn(used: Client): void {
    const client = used.destroyed && !this.#closed ? this.#open() : used;
    if (client === undefined) return; // After a reset others have taken its place, and will pass on theirs.
    for (;;) {
      const next = this.#waiting[this.#nextWaiting];
      if (next === undefined) break;
      this.#nextWaiting += 1;
      if (next.handler.cancelled) continue;
      this.#dropPassed();
      this.#dispatch(client, next.options, next.handler);
      return;
    }
    this.#dropPassed();
    this.#free.push(client);
  }

  /** Now and then, so that it costs nothing a request. */
  #dropPassed(): void {
    if (this.#nextWaiting < 1024 && this.#nextWaiting < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#nextWaiting);
    this.#nextWaiting = 0;
  }
}

function closedError(): Error {
  return new WhetstoneError("CANCELLED", "the connections to the model server were closed");
}

function fullError(connections: number, maxWaiting: number): Error {
  const message = `${maxWaiting} requests wait for one of ${connections} connections already: play fewer episodes at once`;
  return new WhetstoneError("RESOURCE_EXHAUSTED", message);
}
