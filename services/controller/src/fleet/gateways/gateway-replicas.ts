// SPDX-License-Identifier: Apache-2.0
import { everyAddress } from "@whetstone/core";
import type { FleetClient } from "../fenced-fleet.ts";

/** One process of the gateway, with the FleetService that steers it. */
export interface GatewayReplica {
  /** "host:port" */
  readonly address: string;
  readonly client: FleetClient;
  /** It did not answer the last time. */
  isSilent: boolean;
}

export interface GatewayReplicasOptions {
  /** "host:port", each of which stands for every address that its host has. */
  readonly addresses: readonly string[];
  readonly connect: (address: string) => FleetClient;
  readonly everyHost?: (hostname: string) => Promise<string[]>;
}

/** Names are looked up this often at most. */
const FRESH_MS = 1_000;

/** The gateway's replicas as name service tells them now. Pods come and go. */
export class GatewayReplicas implements AsyncDisposable {
  readonly #options: GatewayReplicasOptions;
  readonly #replicas = new Map<string, GatewayReplica>();
  #looked: { readonly at: number; readonly done: Promise<void> } | undefined;

  constructor(options: GatewayReplicasOptions) {
    this.#options = options;
  }

  /** None: nobody knows the names, for now. */
  async all(): Promise<GatewayReplica[]> {
    const now = performance.now();
    if (this.#looked === undefined || now - this.#looked.at > FRESH_MS) this.#looked = { at: now, done: this.#look() };
    await this.#looked.done;
    return [...this.#replicas.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#replicas.values()];
    this.#replicas.clear();
    await Promise.all(all.map(({ client }) => client[Symbol.asyncDispose]()));
  }

  async #look(): Promise<void> {
    const found = new Set((await Promise.all(this.#options.addresses.map((each) => this.#expand(each)))).flat());
    // A name service that is away for a moment says nothing about who is there.
    if (found.size === 0) return;
    for (const address of found) {
      if (this.#replicas.has(address)) continue;
      this.#replicas.set(address, { address, client: this.#options.connect(address), isSilent: false });
    }
    for (const [address, { client }] of this.#replicas) {
      if (found.has(address)) continue;
      this.#replicas.delete(address);
      await client[Symbol.asyncDispose]();
    }
  }

  async #expand(address: string): Promise<string[]> {
    const at = address.lastIndexOf(":");
    const { everyHost = everyAddress } = this.#options;
    const hosts = await everyHost(address.slice(0, at));
    return hosts.map((host) => host + address.slice(at));
  }
}
