// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import type { Logger } from "@whetstone/telemetry";
import type { TlsIdentity } from "@whetstone/tls";
import { Gateway, type GatewayChoice } from "./gateway.ts";
import { type GatewayWays, openGatewayWays } from "./gateway-access.ts";
import { GatewayRotation } from "./gateway-rotation.ts";
import { type GatewayUrls, replicaUrls, type ReplicaUrls } from "./replica-urls.ts";

/** A replica as processes of jobs' own code are told of it. */
export interface ReachedGateway {
  /** In plain text from this machine; its name for `connect`, too. */
  readonly url: string;
  readonly publicUrl: string | undefined;
}

interface Options {
  readonly urls: GatewayUrls;
  /** Connections to one replica at most. */
  readonly connections: number;
  readonly tls: TlsIdentity | undefined;
  readonly logger: Logger;
  readonly everyUrl?: typeof replicaUrls;
}

interface Replica extends AsyncDisposable {
  readonly urls: ReplicaUrls;
  readonly ways: GatewayWays;
  readonly gateway: Gateway;
}

const LOOK_MS = 1_000;
/** Of replicas that are gone. */
const MAX_FORMER = 32;

/** The replicas of the gateway as name service tells them now, and how each is reached. */
export class GatewayReplicas implements GatewayChoice, AsyncDisposable {
  readonly #options: Options;
  readonly #replicas = new Map<string, Replica>();
  /** Those that are gone, the last one last. Sessions and agents that know them are led on from there. */
  readonly #former: Replica[] = [];
  readonly #rotation = new GatewayRotation(() => [...this.#replicas.values()].map(({ gateway }) => gateway));
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void>;
  #disposed = false;

  private constructor(options: Options) {
    this.#options = options;
    this.#looking = this.#update();
    this.#timer = setInterval(() => {
      this.#looking = this.#looking.then(() => this.#look());
    }, LOOK_MS).unref();
  }

  static async open(options: Options): Promise<GatewayReplicas> {
    const replicas = new GatewayReplicas(options);
    await replicas.#looking;
    return replicas;
  }

  pick(): Gateway {
    return this.#rotation.pick();
  }

  holderOf(session: string, except: Gateway): Promise<Gateway | undefined> {
    return this.#rotation.holderOf(session, except);
  }

  /** Those that take sessions. */
  get reached(): ReachedGateway[] {
    const { taking } = this.#rotation;
    const reached = [...this.#replicas.values()].filter(({ gateway }) => taking.includes(gateway));
    return reached.map(({ ways: { url, access } }) => ({ url, publicUrl: access.publicUrl }));
  }

  /** In plain text, of every replica. */
  get urls(): string[] {
    return [...this.#replicas.values()].map(({ ways }) => ways.url);
  }

  /** A new connection for code of a job in a sandbox. @param url  as `reached` says; undefined: it is gone */
  connect(url: string): Duplex | undefined {
    return [...this.#replicas.values()].find(({ ways }) => ways.url === url)?.ways.connect();
  }

  /** A new connection for a program in a sandbox. @param origin  of the base URL that it was told */
  connectProgram(origin: string): Duplex {
    const told = ({ ways: { url, access } }: Replica): string => new URL(access.agentUrl ?? url).origin;
    const named = [...this.#replicas.values()].find((each) => told(each) === origin);
    const replica = this.#forAgentsOf(named);
    if (replica === undefined) throw new Error("no gateway is known");
    return replica.ways.connectPrograms();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    clearInterval(this.#timer);
    await this.#looking;
    const all = [...this.#replicas.values(), ...this.#former.splice(0)];
    this.#replicas.clear();
    await Promise.all(all.map((replica) => replica[Symbol.asyncDispose]()));
  }

  async #look(): Promise<void> {
    if (this.#disposed) return;
    await this.#update().catch((error: unknown) => {
      this.#options.logger.warn("gateways_not_known", { error });
    });
    await this.#rotation.look();
  }

  /** Takes in those that came. One whose name is gone stays while it answers: sessions may still be there. */
  async #update(): Promise<void> {
    const { urls, everyUrl = replicaUrls } = this.#options;
    const found = await everyUrl(urls);
    const named = new Set(found.map(({ gatewayUrl }) => gatewayUrl));
    for (const each of found)
      if (!this.#replicas.has(each.gatewayUrl)) this.#replicas.set(each.gatewayUrl, await this.#open(each));
    for (const [url, replica] of this.#replicas) {
      if (named.has(url)) continue;
      if (replica.gateway.isAnswering) continue;
      this.#replicas.delete(url);
      this.#former.push(replica);
      if (this.#former.length > MAX_FORMER) await this.#former.shift()?.[Symbol.asyncDispose]();
    }
  }

  /** The replica itself unless it is gone, else one that answers: there a key opens its session, wherever that is now. */
  #forAgentsOf(replica: Replica | undefined): Replica | undefined {
    const all = [...this.#replicas.values()];
    const known = all.find((each) => each === replica);
    if (known?.gateway.isGone === false) return known;
    return all.find(({ gateway }) => gateway.isAnswering) ?? known ?? all[0];
  }

  async #open(urls: ReplicaUrls): Promise<Replica> {
    const { tls, connections } = this.#options;
    await using opened = new AsyncDisposableStack();
    let replica: Replica | undefined = undefined;
    const agentsAt = (): string | undefined => this.#forAgentsOf(replica)?.urls.agentGatewayUrl;
    const ways = await openGatewayWays(urls, tls, opened, agentsAt);
    const gateway = opened.use(new Gateway(urls.gatewayUrl, connections, ways.access));
    const all = opened.move();
    replica = { urls, ways, gateway, [Symbol.asyncDispose]: () => all.disposeAsync() };
    return replica;
  }
}
