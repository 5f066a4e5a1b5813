// SPDX-License-Identifier: Apache-2.0
// FleetService of all replicas of the gateway as one. A replica that answers must agree; one that does not is left out: it may be
// dead, and if it is not, it discards whatever an engine sampled under another label than it counts on (I5), and what it counts
// on is put right as soon as it answers again (EngineFleet).
import { isAbort, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { FleetService, ListEnginesResponse } from "@whetstone/proto/inference/v1/inference";
import type { CallOptions, RpcClient } from "@whetstone/rpc";
import type { FleetClient } from "../fenced-fleet.ts";
import type { GatewayReplica, GatewayReplicas } from "./gateway-replicas.ts";
import { type EngineView, mergeEngines, type SeenEngine, sumWaiting } from "./merge-engines.ts";

/** What the controller does to the gateway, however many replicas it has. */
export interface Gateways extends Omit<RpcClient<typeof FleetService>, "listEngines"> {
  listEngines(request: object, options?: CallOptions): Promise<Listed>;
}

interface Listed extends ListEnginesResponse {
  engines: SeenEngine[];
}

/** A replica among others has so long to answer, milliseconds; one that did not the last time, less. */
const ANSWER_MS = 5_000;
const SILENT_MS = 500;
/** What still runs on a fenced engine is taken back within a moment. */
const DRAIN_MS = 10_000;
/** The process is not there, or does not answer. */
const AWAY: ReadonlySet<string> = new Set(["UNAVAILABLE", "DEADLINE_EXCEEDED"]);

type Unary<Request, Answer> = (request: Request, options?: CallOptions) => Promise<Answer>;
type Method = Exclude<keyof FleetClient, symbol>;

interface Answered<Answer> {
  readonly gateway: GatewayReplica;
  readonly answer: Answer;
}

export function everyGateway(replicas: GatewayReplicas, logger: Logger): Gateways {
  const asked = new AskedGateways(replicas, logger);
  return {
    listEngines: (request, options) => asked.list(request, options),
    registerEngine: async (request, options) => {
      asked.removed.delete(request.id ?? "");
      return first(await asked.each("registerEngine", request, options));
    },
    removeEngine: async (request, options) => {
      asked.removed.add(request.id ?? "");
      const removed = await asked.each("removeEngine", request, options, Number.POSITIVE_INFINITY);
      return { ...first(removed), revoked: removed.reduce((sum, { answer }) => sum + answer.revoked, 0) };
    },
    fenceEngine: async (request, options) => first(await asked.each("fenceEngine", request, options)),
    drainEngine: async (request, options) => first(await asked.each("drainEngine", request, options, DRAIN_MS)),
    unfenceEngine: async (request, options) => first(await asked.each("unfenceEngine", request, options)),
    forgetPolicy: async (request, options) => {
      const forgotten = await asked.each("forgetPolicy", request, options);
      return { ...first(forgotten), sessions: forgotten.reduce((sum, { answer }) => sum + answer.sessions, 0) };
    },
    putAdapters: async (request, options) => first(await asked.each("putAdapters", request, options)),
    putServings: async (request, options) => first(await asked.each("putServings", request, options)),
    takeFeedback: async (request, options) => {
      const taken = await asked.each("takeFeedback", request, options);
      return { ...first(taken), feedback: taken.flatMap(({ answer }) => answer.feedback) };
    },
    [Symbol.asyncDispose]: () => replicas[Symbol.asyncDispose](),
  };
}

class AskedGateways {
  /** Engines that were taken away: no replica is told of them by what another has not yet forgotten. */
  readonly removed = new Set<string>();
  readonly #replicas: GatewayReplicas;
  readonly #logger: Logger;

  constructor(replicas: GatewayReplicas, logger: Logger) {
    this.#replicas = replicas;
    this.#logger = logger;
  }

  async list(request: object, options: CallOptions = {}): Promise<Listed> {
    const answered = await this.each("listEngines", request, options);
    const views = answered.flatMap(({ gateway, answer }) => answer.engines.map((engine) => ({ gateway, engine })));
    await this.#teach(
      answered.map(({ gateway }) => gateway),
      views,
      options,
    );
    return {
      ...first(answered),
      engines: mergeEngines(views),
      waitingCalls: sumWaiting(answered.map(({ answer }) => answer.waitingCalls)),
    };
  }

  /**
   * Asks all replicas at once, each for `mostMs` at most where there are several.
   * @returns what those said that are there; the others are left out
   * @throws what a replica said that refuses; where none is there, why
   */
  async each<M extends Method>(
    method: M,
    request: Parameters<FleetClient[M]>[0],
    options: CallOptions = {},
    mostMs = ANSWER_MS,
  ): Promise<Answered<Awaited<ReturnType<FleetClient[M]>>>[]> {
    const all = await this.#replicas.all();
    if (all.length === 0)
      throw new WhetstoneError("UNAVAILABLE", "no gateway is known by its name", { retry: "later" });
    type Answer = Awaited<ReturnType<FleetClient[M]>>;
    const askOne = async (gateway: GatewayReplica): Promise<Answered<Answer>> => {
      const call = gateway.client[method] as unknown as Unary<typeof request, Answer>;
      const answer = await call(request, all.length === 1 ? options : amongOthers(gateway, options, mostMs));
      gateway.isSilent = false;
      return { gateway, answer };
    };
    const settled = await Promise.allSettled(all.map(askOne));
    const errors: unknown[] = [];
    settled.forEach((each, index) => {
      if (each.status === "fulfilled") return;
      errors.push(each.reason);
      this.#leaveOut(all[index] as GatewayReplica, method, each.reason, options.signal);
    });
    const answered = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    if (answered.length === 0) throw errors[0];
    return answered;
  }

  /** @throws the error of a replica that is there */
  #leaveOut(gateway: GatewayReplica, method: string, error: unknown, signal: AbortSignal | undefined): void {
    if (signal?.aborted || isAbort(error)) throw error;
    const { code } = WhetstoneError.from(error);
    if (code === "NOT_FOUND") return; // A replica that has just begun is told of its engines by the next list.
    if (!AWAY.has(code)) throw error;
    if (!gateway.isSilent) this.#logger.warn("gateway_left_out", { gateway: gateway.address, method, error });
    gateway.isSilent = true;
  }

  /** Tells replicas of the engines that only others know. Where another controller leads, that one does. */
  async #teach(gateways: readonly GatewayReplica[], views: readonly EngineView[], options: CallOptions): Promise<void> {
    if (gateways.length < 2) return;
    const known = new Map(gateways.map((gateway) => [gateway, new Set<string>()]));
    for (const { gateway, engine } of views) known.get(gateway)?.add(engine.id);
    const missing = gateways.flatMap((gateway) =>
      views
        .filter(({ engine }) => !known.get(gateway)?.has(engine.id) && !this.removed.has(engine.id))
        .map(({ engine }) => ({ gateway, engine })),
    );
    const told = missing.map(async ({ gateway, engine: { id, url, controlUrl } }) => {
      await gateway.client.registerEngine({ id, url, controlUrl }, amongOthers(gateway, options));
    });
    for (const each of await Promise.allSettled(told))
      if (each.status === "rejected") this.#logger.debug("gateway_not_told", { error: each.reason as unknown });
  }
}

/** One of several must not hold up the others. */
function amongOthers({ isSilent }: GatewayReplica, options: CallOptions, mostMs = ANSWER_MS): CallOptions {
  const most = isSilent ? SILENT_MS : mostMs;
  return { ...options, failFast: true, deadlineMs: Math.min(options.deadlineMs ?? ANSWER_MS, most) };
}

function first<Answer>(answered: readonly Answered<Answer>[]): Answer {
  return (answered[0] as Answered<Answer>).answer;
}
