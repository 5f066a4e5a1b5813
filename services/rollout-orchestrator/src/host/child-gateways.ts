// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { Duplex } from "node:stream";
import { connectNamed, hasSocket, socketOf } from "@whetstone/modules/child";
import { splice } from "@whetstone/sandbox";
import { connectorThrough } from "@whetstone/tls";
import { Gateway, type GatewayChoice } from "../play/gateway.ts";
import type { ReachedGateway } from "../play/gateway-replicas.ts";
import { GatewayRotation } from "../play/gateway-rotation.ts";

const LOOK_MS = 1_000;

/** The gateway's replicas in a process of a job's own code, as its parent tells them with each play. */
export class ChildGateways implements GatewayChoice, AsyncDisposable {
  readonly #connections: number;
  readonly #opened = new AsyncDisposableStack();
  /** By the URL that the parent calls it. */
  readonly #gateways = new Map<string, Promise<Gateway>>();
  #known: Gateway[] = [];
  readonly #rotation = new GatewayRotation(() => this.#known);

  constructor(connections: number) {
    this.#connections = connections;
    const timer = setInterval(() => void this.#rotation.look(), LOOK_MS).unref();
    this.#opened.defer(() => {
      clearInterval(timer);
    });
  }

  pick(): Gateway {
    return this.#rotation.pick();
  }

  holderOf(session: string, except: Gateway): Promise<Gateway | undefined> {
    return this.#rotation.holderOf(session, except);
  }

  /** One that is told no more may hold sessions still, but gets no new ones. */
  async update(reached: readonly ReachedGateway[]): Promise<void> {
    const taking = new Set<Gateway>();
    for (const each of reached) {
      let gateway = this.#gateways.get(each.url);
      if (gateway === undefined) this.#gateways.set(each.url, (gateway = this.#open(each)));
      taking.add(await gateway);
    }
    this.#known = await Promise.all(this.#gateways.values());
    for (const gateway of this.#known) gateway.seen(taking.has(gateway));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }

  /** In a sandbox by the socket; users' own clients, which know URLs, by a port of the sandbox's loopback that leads there. */
  async #open({ url, publicUrl }: ReachedGateway): Promise<Gateway> {
    if (!hasSocket("gateways")) return this.#opened.use(new Gateway(url, this.#connections, { publicUrl }));
    const connect = (): Duplex => connectNamed(socketOf("gateways"), url);
    const { pathname } = new URL(url);
    const inside = `http://127.0.0.1:${await this.#forward(connect)}${pathname === "/" ? "" : pathname}`;
    const access = { connect: connectorThrough(() => connectNamed(socketOf("gateways"), url)), publicUrl };
    return this.#opened.use(new Gateway(inside, this.#connections, access));
  }

  /** @returns a port of the loopback */
  async #forward(connect: () => Duplex): Promise<number> {
    const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
      splice(near, connect());
    });
    server.listen(0, "127.0.0.1").unref();
    await once(server, "listening");
    this.#opened.defer(() => void server.close());
    return (server.address() as AddressInfo).port;
  }
}
