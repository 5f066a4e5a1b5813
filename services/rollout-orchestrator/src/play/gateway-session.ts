// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import type { ModelCall } from "@whetstone/proto/types/v1/types";
import {
  ChatClient,
  type ChatMessage,
  type ChatOptions,
  type ChatPlace,
  ConnectionError,
  EpisodeError,
  type ModelAnswer,
  type ModelEndpoint,
  type RolloutClient,
  type Step,
} from "@whetstone/sdk";
import type { Gateway, GatewayChoice, SessionTerms } from "./gateway.ts";

const API_RETRIES = 10;
const DISCARD_MS = 5_000;
/** How often a session is looked for that may be on its way, and how long after the first time. */
const LOOKS = 2;
const LOOK_AGAIN_MS = 500;
/** Of one session while its calls are taken. */
const MAX_MOVES = 4;

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
  /** A replica has the session. */
  #hasBegun = false;
  #looking: Promise<boolean> | undefined;

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
    this.#hasBegun = true;
    this.#chat = this.#client(key);
    return { ...this.#chat.endpoint, ...this.#gateway.agentUrls() };
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    await this.#findIfAway();
    const answer = await this.#placed(() => this.#chat.chat(messages, options));
    this.#hasBegun = true;
    this.#answered.push(answer.callId);
    return answer;
  }

  /**
   * I4: a gateway that was restarted has lost calls; then the try does not count. It gives out names from the start again, so
   * a name that came twice tells it, too. Calls that nobody waited for any more may be there in addition.
   */
  async finish(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    const calls = await this.#takeCalls(signal);
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
    this.calls ??= await this.#takeCalls(AbortSignal.timeout(timeoutMs)).catch(() => []);
    return this.calls;
  }

  /**
   * A request for this session. One that would begin it at a replica which leaves begins it at another; a replica that is gone has
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

  /** Wherever the session has gone. */
  async #takeCalls(signal: AbortSignal): Promise<ModelCall[]> {
    await this.#findIfAway();
    for (let moves = 0; ; moves++) {
      const gateway = this.#gateway;
      try {
        return await gateway.takeCalls(this.#name, this.#hasBegun, signal);
      } catch (error) {
        if (!isLost(error) || moves >= MAX_MOVES || !(await this.#follow(gateway.pool))) throw error;
      }
    }
  }

  /** The replica that holds it is gone, or has it no more: it may have handed it to another one as it left. */
  async #follow(lost: ChatPlace["pool"]): Promise<boolean> {
    // Another request may have found it already.
    if (this.#gateway.pool !== lost) return true;
    this.#looking ??= this.#look(LOOKS).finally(() => {
      this.#looking = undefined;
    });
    return await this.#looking;
  }

  /** Nobody waits for a connection to a replica that is seen to be away, where another has the session. */
  async #findIfAway(): Promise<void> {
    if (this.#gateway.isAnswering || this.#looking !== undefined) return;
    await this.#look(1);
  }

  async #look(looks: number): Promise<boolean> {
    const from = this.#gateway;
    for (let look = 0; this.#hasBegun && look < looks; look++) {
      if (look > 0) await sleep(LOOK_AGAIN_MS);
      const holder = await this.#choice.holderOf(this.#name, from);
      if (holder === undefined) continue;
      this.#gateway = holder;
      return true;
    }
    return false;
  }

  #client(apiKey?: string): ChatClient {
    const baseUrl = this.#gateway.sessionUrl(this.#name);
    const session = {
      place: () => this.#gateway.place(this.#name),
      follow: ({ pool: lost }: ChatPlace) => this.#follow(lost),
    };
    const { pool } = this.#gateway;
    return new ChatClient({ baseUrl, model: this.#model, pool, apiRetries: API_RETRIES, session, apiKey });
  }

  /** Drops a session nobody will ask for; a gateway that does not hear it drops it when it has been idle. */
  discard(): void {
    if (this.calls === undefined) this.#takeCalls(AbortSignal.timeout(DISCARD_MS)).catch(() => undefined);
  }
}

function isLost(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof EpisodeError && error.code === "DATA_LOSS");
}

function isLeaving(error: unknown): boolean {
  return error instanceof EpisodeError && error.code === "HANDED_BACK";
}
