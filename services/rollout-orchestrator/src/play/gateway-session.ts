// SPDX-License-Identifier: Apache-2.0
import type { ModelCall } from "@whetstone/proto/types/v1/types";
import {
  ChatClient,
  type ChatMessage,
  type ChatOptions,
  ConnectionError,
  EpisodeError,
  type ModelAnswer,
  type ModelEndpoint,
  type RolloutClient,
  type Step,
} from "@whetstone/sdk";
import type { Gateway, GatewayChoice, SessionTerms } from "./gateway.ts";

const API_RETRIES = 10;

/** One try's model: its calls go under one session, which is taken from the gateway when the try has succeeded. */
export class GatewaySession implements RolloutClient {
  /** The session's calls, once taken. */
  calls: ModelCall[] | undefined;
  readonly #choice: GatewayChoice;
  /** Where the session is. */
  #gateway: Gateway;
  readonly #name: string;
  readonly #model: string;
  readonly #terms: SessionTerms;
  #chat: ChatClient;
  /** Names of the calls that were answered, in the order of their answers. */
  readonly #answered: string[] = [];

  /** @param terms  for an agent with a client of its own; others ask for what the task says. */
  constructor(choice: GatewayChoice, name: string, { model, terms }: { model: string; terms: SessionTerms }) {
    this.#choice = choice;
    this.#gateway = choice.pick();
    this.#name = name;
    this.#model = model;
    this.#terms = terms;
    this.#chat = this.#client();
  }

  get endpoint(): ModelEndpoint {
    return this.#chat.endpoint;
  }

  /** For an agent with a client of its own: its key is good for this try alone. */
  async openEndpoint(signal: AbortSignal): Promise<ModelEndpoint> {
    const key = await this.#placed((gateway) => gateway.issueKey(this.#name, this.#terms, signal));
    this.#chat = this.#client(key);
    return { ...this.#chat.endpoint, ...this.#gateway.agentUrls() };
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    const answer = await this.#placed(() => this.#chat.chat(messages, options));
    this.#answered.push(answer.callId);
    return answer;
  }

  /**
   * I4: a gateway that was restarted has lost calls; then the try does not count. It gives out names from the start again, so
   * a name that came twice tells it, too. Calls that nobody waited for any more may be there in addition.
   */
  async finish(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    const calls = await this.#gateway.takeCalls(this.#name, signal);
    const ids = new Set(calls.map(({ id }) => id));
    const used = new Set(this.#answered);
    const lost = used.size !== this.#answered.length || [...used].some((id) => !ids.has(id));
    if (lost || steps.some(({ callId }) => !used.has(callId))) {
      const counts = `the gateway holds ${calls.length} calls of session ${this.#name} but answered ${this.#answered.length}`;
      throw new EpisodeError("INFRASTRUCTURE", `${counts}: it was restarted meanwhile`, { code: "DATA_LOSS" });
    }
    this.calls = calls;
  }

  /** What there is, for an episode that ended otherwise (deadline): its calls may still be trained on. */
  async salvage(timeoutMs: number): Promise<ModelCall[]> {
    this.calls ??= await this.#gateway.takeCalls(this.#name, AbortSignal.timeout(timeoutMs)).catch(() => []);
    return this.calls;
  }

  /**
   * A call of this session. One that would begin it at a replica which leaves begins it at another; a replica that is gone has
   * taken the session with it: then the next try begins elsewhere.
   */
  async #placed<T>(call: (gateway: Gateway) => Promise<T>): Promise<T> {
    const gateway = this.#gateway;
    try {
      return await call(gateway);
    } catch (error) {
      if (error instanceof ConnectionError) gateway.lost();
      if (!isLeaving(error) || this.#answered.length > 0 || !gateway.hasOthers()) throw error;
      if (this.#gateway === gateway) this.#moveFrom(gateway);
    }
    return await this.#placed(call);
  }

  #moveFrom(gateway: Gateway): void {
    gateway.lost();
    this.#gateway = this.#choice.pick();
    this.#chat = this.#client();
  }

  #client(apiKey?: string): ChatClient {
    const { pool, reconnects } = this.#gateway;
    const baseUrl = this.#gateway.sessionUrl(this.#name);
    return new ChatClient({ baseUrl, model: this.#model, pool, apiRetries: API_RETRIES, reconnects, apiKey });
  }

  discard(): void {
    if (this.calls === undefined) this.#gateway.discard(this.#name);
  }
}

function isLeaving(error: unknown): boolean {
  return error instanceof EpisodeError && error.code === "HANDED_BACK";
}
