// SPDX-License-Identifier: Apache-2.0
import { fromBinary } from "@bufbuild/protobuf";
import { CallTreeSchema } from "@whetstone/proto/inference/v1/inference";
import type { ChatMessage as WireMessage, ModelCall } from "@whetstone/proto/types/v1/types";
import {
  BEGUN,
  type ChatPlace,
  ConnectionError,
  type ConnectionPool,
  createChatPool,
  type HttpAnswer,
  type HttpRequest,
  type ModelEndpoint,
  refusal,
  sendWithRetry,
} from "@whetstone/sdk";

const PROTOBUF = "application/x-protobuf";
/** Calls in all; with the pauses between them half a minute, about what a gateway takes to be restarted and verified. */
const ATTEMPTS = 10;
/** Where others take its place: what it held is lost, so a try that waited for it would be waiting for nothing. */
const ATTEMPTS_AMONG_OTHERS = 3;
const LOOK_MS = 5_000;
/** A replica that has said nothing for so long hangs, or its machine is gone: who waits there plays again elsewhere. */
const HANGS_AFTER_MS = 15_000;
const HOLDS_MS = 2_000;
const LOSS_MS = 3_000;

/** A conversation, and the tools that its template prints. */
export interface GivenConversation {
  readonly messages: readonly WireMessage[];
  readonly tools: readonly object[];
}

/** What the calls of a session are sampled with, and what a client may ask for, as the gateway reads it. */
export interface SessionTerms {
  readonly sampling: object;
  readonly client_sampling: "context" | "override" | "refuse";
}

/** How a gateway is reached beside its URL. */
export interface GatewayAccess {
  /** Where it wants to know who calls. */
  readonly connect?: Parameters<typeof createChatPool>[2];
  /** What agents with clients of their own are told, since those know no certificates. */
  readonly relayUrl?: string | undefined;
  /** Its port for agents, where a key alone names the session, as programs on this machine reach it. */
  readonly agentUrl?: string | undefined;
  /** The same port, as programs on other machines reach it. */
  readonly publicUrl?: string | undefined;
}

/** Says which replica of the gateway holds a session. */
export interface GatewayChoice {
  /** For a new one. It stays there, unless that replica leaves. @throws EpisodeError INFRASTRUCTURE where there is none */
  pick(): Gateway;
  /** Another replica that has the session; undefined: none says so. */
  holderOf(session: string, except: Gateway): Promise<Gateway | undefined>;
}

/** The session interface of one replica, over the one pool that the agents' calls use, too. Alone it is its own choice. */
export class Gateway implements GatewayChoice, AsyncDisposable {
  readonly pool: ConnectionPool;
  /** False: it leaves, or does not answer; what it holds stays there. */
  takesSessions = true;
  /** Whether another replica would take a session now. */
  hasOthers: () => boolean = () => false;
  /** For looks at it: agents' calls may take all other connections. */
  readonly #lookPool: ConnectionPool;
  #answeredAt = performance.now();
  #isAnswering = true;
  #isGone = false;
  #lostAt = Number.NEGATIVE_INFINITY;
  readonly #url: URL;
  readonly #access: GatewayAccess;

  constructor(url: string, connections: number, access: GatewayAccess = {}) {
    this.#url = new URL(url);
    this.#access = access;
    this.pool = createChatPool(this.#url.origin, connections, access.connect);
    this.#lookPool = createChatPool(this.#url.origin, 1, access.connect);
  }

  pick(): this {
    return this;
  }

  holderOf(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  /** Whether a session is here, and not on its way elsewhere. Never throws. */
  async holds(session: string): Promise<boolean> {
    const signal = AbortSignal.timeout(HOLDS_MS);
    const request: HttpRequest = { method: "GET", path: this.#path(session), headers: {}, signal };
    const answer = await sendWithRetry(this.#lookPool, request, 1).catch(() => undefined);
    return answer?.status === 200;
  }

  /** Where our own client finds a session that is here. */
  place(session: string): ChatPlace {
    const { pool, reconnects } = this;
    return { baseUrl: `${this.#url.origin}${this.#path(session)}`, pool, reconnects };
  }

  /** How often a call is made in all before its connection counts as lost. */
  readonly reconnects = (): number => {
    if (!this.hasOthers()) return ATTEMPTS;
    return this.#hangs ? 1 : ATTEMPTS_AMONG_OTHERS;
  };

  /** Asks whether it takes sessions: one that leaves says 503. Never throws. */
  async look(): Promise<void> {
    const path = `${this.#url.pathname.replace(/\/$/, "")}/healthz`;
    const signal = AbortSignal.timeout(LOOK_MS);
    const request: HttpRequest = { method: "GET", path, headers: {}, signal };
    let isGone = false;
    const answer = await sendWithRetry(this.#lookPool, request, 1).catch((error: unknown) => {
      isGone = error instanceof ConnectionError;
    });
    this.#isGone = isGone;
    this.#isAnswering = answer !== undefined;
    if (answer !== undefined) {
      this.#answeredAt = performance.now();
      this.seen(answer.status === 200);
      return;
    }
    this.takesSessions = false;
    if (this.#hangs && this.hasOthers()) this.pool.reset();
  }

  /** Whether it answered the last look. */
  get isAnswering(): boolean {
    return this.#isAnswering;
  }

  /** Whether nobody was there at the last look. One that hangs still has its connections. */
  get isGone(): boolean {
    return this.#isGone;
  }

  get #hangs(): boolean {
    return performance.now() - this.#answeredAt > HANGS_AFTER_MS;
  }

  /** It is not there: no session is opened here until somebody sees it again. */
  lost(): void {
    this.#lostAt = performance.now();
    this.takesSessions = false;
  }

  /** What a look at it said. Right after a loss it is not believed: the look may be older. */
  seen(takes: boolean): void {
    if (takes && performance.now() - this.#lostAt < LOSS_MS) return;
    this.takesSessions = takes;
  }

  /** What an agent's client takes as its base URL. */
  sessionUrl(session: string): string {
    return `${this.#access.relayUrl ?? this.#url.origin}${this.#path(session)}`;
  }

  /** Where an agent with a key goes instead of `sessionUrl`, if there is a port for agents. */
  agentUrls(): Partial<Pick<ModelEndpoint, "baseUrl" | "publicBaseUrl">> {
    const { agentUrl, publicUrl } = this.#access;
    return {
      ...(agentUrl === undefined ? {} : { baseUrl: baseUrlAt(agentUrl) }),
      ...(publicUrl === undefined ? {} : { publicBaseUrl: baseUrlAt(publicUrl) }),
    };
  }

  /** The key that names a session to the gateway, for as long as the session lives, and what its calls are sampled with. */
  async issueKey(session: string, terms: SessionTerms, signal: AbortSignal): Promise<string> {
    const headers = { "content-type": "application/json" };
    const request: HttpRequest = {
      method: "POST",
      path: `${this.#path(session)}/key`,
      headers,
      body: JSON.stringify(terms),
      signal,
    };
    const answer = await this.#send(request);
    if (answer.status !== 201) throw refusal(answer);
    return (JSON.parse(new TextDecoder().decode(answer.body)) as { key: string }).key;
  }

  /** All calls of a session, token-exact; the session is gone afterwards. @param hasBegun  then it must be here */
  async takeCalls(session: string, hasBegun: boolean, signal: AbortSignal): Promise<ModelCall[]> {
    const path = `${this.#path(session)}/calls?close=true`;
    const headers = { accept: PROTOBUF, ...(hasBegun && { [BEGUN]: "true" }) };
    return this.#calls({ method: "GET", path, headers, signal });
  }

  /** The calls that would have sampled a given conversation. */
  async render(
    session: string,
    model: string,
    { messages, tools }: GivenConversation,
    signal: AbortSignal,
  ): Promise<ModelCall[]> {
    const headers = { accept: PROTOBUF, "content-type": "application/json" };
    const body = JSON.stringify({ model, messages: messages.map(toOpenAi), ...(tools.length > 0 && { tools }) });
    return this.#calls({ method: "POST", path: `${this.#path(session)}/render`, headers, body, signal });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.pool.destroy(), this.#lookPool.destroy()]);
  }

  #path(session: string): string {
    return `${this.#url.pathname.replace(/\/$/, "")}/s/${encodeURIComponent(session)}`;
  }

  async #send(request: HttpRequest): Promise<HttpAnswer> {
    return await sendWithRetry(this.pool, request, ATTEMPTS, this.reconnects).catch((error: unknown) => {
      if (error instanceof ConnectionError) this.lost();
      throw error;
    });
  }

  async #calls(request: HttpRequest): Promise<ModelCall[]> {
    const answer = await this.#send(request);
    if (answer.status !== 200) throw refusal(answer);
    return fromBinary(CallTreeSchema, answer.body).calls;
  }
}

function baseUrlAt(url: string): string {
  return `${url.replace(/\/$/, "")}/v1`;
}

function toOpenAi({ role, content, name, toolCalls, toolCallId, reasoning }: WireMessage): object {
  return {
    role,
    content,
    ...(name === undefined ? {} : { name }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(toOpenAiCall) }),
  };
}

function toOpenAiCall({ id, name, argumentsJson }: WireMessage["toolCalls"][number]): object {
  return { id, type: "function", function: { name, arguments: argumentsJson } };
}
