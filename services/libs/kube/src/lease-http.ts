// SPDX-License-Identifier: Apache-2.0
// The Lease over Node's own HTTP client: for the thread that renews, where every library would cost its memory once more.
import * as http from "node:http";
import * as https from "node:https";
import { type HeldRecord, type LeaseLock, recordOf, specOf } from "./lease-lock.ts";
import { type Lease, LEASES, pathOf, type Stored } from "./objects.ts";

/** How to reach the API server: plain data, so that it can be handed to another thread. */
export interface Access {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: https.AgentOptions;
}

export interface LeaseAddress {
  readonly server: string;
  readonly namespace: string;
  readonly name: string;
}

interface Call {
  readonly method: "GET" | "PUT" | "POST";
  readonly path: string;
  readonly body?: object;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** @param onCall  verb and HTTP status of every call; "none": no answer */
export class HttpLock implements LeaseLock, Disposable {
  readonly #address: LeaseAddress;
  readonly #onCall: (verb: string, code: string) => void;
  #access: Access;
  #agent: http.Agent;

  constructor(address: LeaseAddress, access: Access, onCall: (verb: string, code: string) => void) {
    this.#address = address;
    this.#access = access;
    this.#agent = this.#newAgent();
    this.#onCall = onCall;
  }

  use(access: Access): void {
    this.#agent.destroy();
    this.#access = access;
    this.#agent = this.#newAgent();
  }

  async read(signal: AbortSignal, timeoutMs: number): Promise<HeldRecord | undefined> {
    const { status, text } = await this.#ask("get", { method: "GET", path: this.#path(true), signal, timeoutMs });
    return status === 404 ? undefined : leaseIn(status, text);
  }

  async write(...[record, version, { timeoutMs, signal }]: Parameters<LeaseLock["write"]>): Promise<HeldRecord> {
    const { name, namespace } = this.#address;
    const metadata = { name, namespace, ...(version !== undefined && { resourceVersion: version }) };
    const body = { apiVersion: LEASES.apiVersion, kind: LEASES.kind, metadata, spec: specOf(record) };
    const known = version !== undefined;
    const call = { method: known ? ("PUT" as const) : ("POST" as const), path: this.#path(known) };
    const { status, text } = await this.#ask(known ? "update" : "create", { ...call, body, timeoutMs, signal });
    return leaseIn(status, text);
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  #newAgent(): http.Agent {
    const options = { keepAlive: true, maxSockets: 2 };
    return this.#isPlain ? new http.Agent(options) : new https.Agent({ ...this.#access.tls, ...options });
  }

  get #isPlain(): boolean {
    return this.#address.server.startsWith("http:");
  }

  #path(withName: boolean): string {
    const { name, namespace } = this.#address;
    return pathOf(LEASES, { namespace, name: withName ? name : undefined });
  }

  async #ask(verb: string, call: Call): Promise<{ status: number; text: string }> {
    try {
      const answer = await this.#send(call);
      this.#onCall(verb, String(answer.status));
      return answer;
    } catch (error) {
      this.#onCall(verb, "none");
      throw error;
    }
  }

  #send({ method, path, body, timeoutMs, signal }: Call): Promise<{ status: number; text: string }> {
    const signals = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])];
    const headers = {
      accept: "application/json",
      ...this.#access.headers,
      ...(body && { "content-type": "application/json" }),
    };
    const options = { method, headers, agent: this.#agent, signal: AbortSignal.any(signals) };
    return new Promise((resolve, reject) => {
      const request = (this.#isPlain ? http : https).request(this.#address.server + path, options, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text })).on("error", reject);
      });
      request.on("error", reject).end(body && JSON.stringify(body));
    });
  }
}

function leaseIn(status: number, text: string): HeldRecord {
  if (status < 200 || status > 299) throw new Error(`the API server answered ${status}: ${text.slice(0, 300)}`);
  return recordOf(JSON.parse(text) as Stored<Lease>);
}
