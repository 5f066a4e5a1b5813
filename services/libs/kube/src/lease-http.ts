// SPDX-License-Identifier: Apache-2.0
// The Lease over Node's own HTTP client: for the thread that renews, where every library would cost its memory once more.
import * as http from "node:http";
import * as https from "node:https";
import { changeOf, type HeldRecord, type LeaseLock, recordOf } from "./lease-lock.ts";
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
  readonly method: "GET" | "PATCH";
  readonly body?: object;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** @param onCall  verb and HTTP status of every call; "none": no answer */
export class HttpLock implements Omit<LeaseLock, "create">, Disposable {
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
    const { status, text } = await this.#ask("get", { method: "GET", signal, timeoutMs });
    return status === 404 ? undefined : leaseIn(status, text);
  }

  async change(...[record, version, { timeoutMs, signal }]: Parameters<LeaseLock["change"]>): Promise<HeldRecord> {
    const body = changeOf(record, version);
    const { status, text } = await this.#ask("patch", { method: "PATCH", body, timeoutMs, signal });
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

  get #url(): string {
    const { server, namespace, name } = this.#address;
    return server + pathOf(LEASES, { namespace, name });
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

  #send({ method, body, timeoutMs, signal }: Call): Promise<{ status: number; text: string }> {
    const signals = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])];
    const headers = {
      accept: "application/json",
      ...this.#access.headers,
      ...(body && { "content-type": "application/merge-patch+json" }),
    };
    const options = { method, headers, agent: this.#agent, signal: AbortSignal.any(signals) };
    return new Promise((resolve, reject) => {
      const request = (this.#isPlain ? http : https).request(this.#url, options, (response) => {
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
