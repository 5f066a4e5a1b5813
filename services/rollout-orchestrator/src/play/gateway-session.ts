// SPDX-License-Identifier: Apache-2.0
import type { ModelCall } from "@whetstone/proto/types/v1/types";
import {
  ChatClient,
  type ChatMessage,
  type ChatOptions,
  EpisodeError,
  type ModelAnswer,
  type ModelEndpoint,
  type RolloutClient,
  type Step,
} from "@whetstone/sdk";
import type { Gateway, SessionTerms } from "./gateway.ts";

const API_RETRIES = 10;

/** One try's model: its calls go under one session, which is taken from the gateway when the try has succeeded. */
export class GatewaySession implements RolloutClient {
  /** The session's calls, once taken. */
  calls: ModelCall[] | undefined;
  readonly #gateway: Gateway;
  readonly #name: string;
  readonly #model: string;
  readonly #terms: SessionTerms;
  #chat: ChatClient;
  /** Names of the calls that were answered, in the order of their answers. */
  readonly #answered: string[] = [];

  /** @param terms  for an agent with a client of its own; others ask for what the task says. */
  constructor(gateway: Gateway, name: string, { model, terms }: { model: string; terms: SessionTerms }) {
    this.#gateway = gateway;
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
    this.#chat = this.#client(await this.#gateway.issueKey(this.#name, this.#terms, signal));
    return { ...this.#chat.endpoint, ...this.#gateway.agentUrls() };
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    const answer = await this.#chat.chat(messages, options);
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

  #client(apiKey?: string): ChatClient {
    const { pool } = this.#gateway;
    const baseUrl = this.#gateway.sessionUrl(this.#name);
    return new ChatClient({ baseUrl, model: this.#model, pool, apiRetries: API_RETRIES, apiKey });
  }

  discard(): void {
    if (this.calls === undefined) this.#gateway.discard(this.#name);
  }
}
