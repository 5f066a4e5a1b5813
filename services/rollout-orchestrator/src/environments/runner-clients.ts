// SPDX-License-Identifier: Apache-2.0
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type ClientOptions, type RpcClient } from "@whetstone/rpc";

type Client = RpcClient<typeof EnvironmentService>;

interface Entry {
  readonly client: Client;
  sessions: number;
  usedAt: number;
}

export interface HeldClient extends Disposable {
  readonly client: Pick<Client, "session">;
}

/** A pod that is gone answers nothing at all: the next one is tried soon. */
const CONNECT_MS = 3_000;
const IDLE_MS = 60_000;
const SWEEP_MS = 30_000;

/** One connection to each env-runner, for as long as it is used. */
export class RunnerClients implements AsyncDisposable {
  readonly #entries = new Map<string, Entry>();
  readonly #options: ClientOptions;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ClientOptions = {}) {
    this.#options = options;
    this.#timer = setInterval(() => {
      this.#sweep(performance.now());
    }, SWEEP_MS).unref();
  }

  /** @param elastic  it may be gone: do not wait long for it */
  hold(address: string, elastic: boolean): HeldClient {
    const entry = this.#entries.get(address) ?? this.#open(address, elastic);
    entry.sessions += 1;
    let held = true;
    return {
      client: entry.client,
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        entry.sessions -= 1;
        entry.usedAt = performance.now();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#entries.values().map(({ client }) => client[Symbol.asyncDispose]()));
    this.#entries.clear();
  }

  #open(address: string, elastic: boolean): Entry {
    const options = { ...this.#options, ...(elastic && { connectTimeoutMs: CONNECT_MS }) };
    const entry = { client: createClient(EnvironmentService, address, options), sessions: 0, usedAt: 0 };
    this.#entries.set(address, entry);
    return entry;
  }

  #sweep(now: number): void {
    for (const [address, { client, sessions, usedAt }] of this.#entries) {
      if (sessions > 0 || now - usedAt < IDLE_MS) continue;
      this.#entries.delete(address);
      void client[Symbol.asyncDispose]();
    }
  }
}
