// SPDX-License-Identifier: Apache-2.0
import { equals } from "@bufbuild/protobuf";
import { requireRules } from "@whetstone/contract/check";
import { ConfigError, WhetstoneError } from "@whetstone/core";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import {
  type ChangeServingRequest,
  ChangeServingRequestSchema,
  type CreateServingRequest,
  CreateServingRequestSchema,
  type ServedSource,
  ServedSourceSchema,
  type Serving,
  ServingService,
  type StreamFeedbackRequest,
  StreamFeedbackRequestSchema,
} from "@whetstone/proto/serving/v1/serving";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { Gateways } from "../fleet/gateways/every-gateway.ts";
import type { FeedbackFiles } from "./feedback-files.ts";
import type { KeptWeights } from "./kept-weights.ts";
import { canaryPolicyOf, policyOf, type ServingKeeper } from "./serving-keeper.ts";
import {
  bringsWeights,
  changeServing,
  foldersOf,
  newestOf,
  newServing,
  refuseWhileBeside,
  sourceOf,
  type Taken,
} from "./serving-record.ts";
import type { ServingStore } from "./serving-store.ts";

const LIST_MS = 3_000;

export interface ServingServiceDeps {
  readonly store: ServingStore;
  readonly weights: KeptWeights;
  readonly feedback: Pick<FeedbackFiles, "read">;
  readonly keeper: Pick<ServingKeeper, "failureOf">;
  readonly gateways: Pick<Gateways, "listEngines">;
  /** Why nothing can be served here. Undefined: it can. */
  readonly refusal: string | undefined;
  /** Where clients ask. */
  readonly url: string | undefined;
}

/** ServingService: what is to be served. The keeper brings it about. */
export function servingService(deps: ServingServiceDeps): ServiceImplementation {
  return implement(ServingService, {
    createServing: (request) => createServing(deps, request),
    getServing: async ({ name }) => ({ serving: (await viewsOf(deps, [await deps.store.get(name)]))[0] }),
    listServings: async () => ({ servings: await viewsOf(deps, await deps.store.all()) }),
    changeServing: (request) => change(deps, request),
    streamFeedback: (request) => streamFeedback(deps, request),
    deleteServing: async ({ name }) => {
      await deps.store.get(name);
      refuseWhileBeside(name, "stopping", await deps.store.all());
      await deps.store.remove(name);
      // Engines that read them now fail, and are given to somebody else.
      await deps.weights.dropAll(name);
      return {};
    },
  });
}

async function* streamFeedback({ feedback }: ServingServiceDeps, request: StreamFeedbackRequest) {
  requireRules(StreamFeedbackRequestSchema, request);
  for await (const tasks of feedback.read(request.name)) yield { tasks };
}

async function createServing(deps: ServingServiceDeps, request: CreateServingRequest) {
  requireRules(CreateServingRequestSchema, request);
  if (deps.refusal !== undefined) throw new WhetstoneError("FAILED_PRECONDITION", deps.refusal, { retry: "never" });
  const { name, weight = 1, keys, source, beside } = request;
  const known = await deps.store.find(name);
  if (known) return { serving: sameServing(known, request), created: false };
  if (beside !== "") refuseBase(await deps.store.find(beside), request);
  const serving = await withWeights(deps, { name, beside }, source, async (taken) => {
    const made = newServing({ name, weight, keys, beside }, taken);
    await deps.store.create(made);
    return made;
  });
  return { serving, created: true };
}

async function change(deps: ServingServiceDeps, request: ChangeServingRequest): Promise<{ serving: Serving }> {
  requireRules(ChangeServingRequestSchema, request);
  const { name } = request;
  const now = await deps.store.get(name);
  const before = foldersOf(now);
  if (bringsWeights(request)) refuseWhileBeside(name, "other weights of", await deps.store.all());
  const source = sourceOf(request);
  const apply = (taken: Taken | undefined): Promise<Serving> =>
    deps.store.change(name, (serving) => changeServing(serving, request, taken));
  const serving = await (source ? withWeights(deps, now, source, apply) : apply(undefined));
  const needed = foldersOf(serving);
  for (const folder of before) if (!needed.has(folder)) await deps.weights.drop(folder);
  return { serving };
}

/** What was taken for a change that is refused is dropped again. */
async function withWeights(
  { weights }: ServingServiceDeps,
  { name, beside }: Pick<Serving, "name" | "beside">,
  source: ServedSource | undefined,
  use: (taken: Taken) => Promise<Serving>,
): Promise<Serving> {
  if (!source) throw new WhetstoneError("INTERNAL", "the rules let a request pass that has no source");
  const taken = await weights.take(name, source, beside === "" ? "model" : "adapter");
  try {
    return await use(taken);
  } catch (error) {
    await weights.drop(taken.path);
    throw error;
  }
}

/** Asked for again: a job's newest weights may be others by now, but what is served stays. */
function sameServing(known: Serving, { source, beside }: CreateServingRequest): Serving {
  const served = newestOf(known).source;
  if (source && served && isSame(source, served) && beside === known.beside) return known;
  const advice = `\`whet servings set ${known.name} SOURCE\` gives it other weights`;
  throw new WhetstoneError("ALREADY_EXISTS", `"${known.name}" serves other weights: ${advice}`, { retry: "never" });
}

/** @throws ConfigError unless adapters can stand beside it */
function refuseBase(base: Serving | undefined, { beside, weight }: CreateServingRequest): void {
  if (!base) throw new ConfigError([{ path: "beside", reason: `nothing is served as "${beside}"` }]);
  if (base.beside !== "")
    throw new ConfigError([{ path: "beside", reason: `"${beside}" is an adapter itself, beside "${base.beside}"` }]);
  if (weight !== undefined)
    throw new ConfigError([{ path: "weight", reason: `has no meaning: the engines of "${beside}" answer for it` }]);
}

function isSame(asked: ServedSource, served: ServedSource): boolean {
  if (asked.kind.case === "job" && served.kind.case === "job" && asked.kind.value.policyVersion === undefined)
    return asked.kind.value.name === served.kind.value.name;
  return equals(ServedSourceSchema, asked, served);
}

async function viewsOf({ gateways, keeper, url = "" }: ServingServiceDeps, servings: readonly Serving[]) {
  const listed = await gateways.listEngines({}, { deadlineMs: LIST_MS }).catch(() => ({ engines: [] }));
  const enginesOf = (policy: string): number => listed.engines.filter((engine) => serves(engine, policy)).length;
  return servings.map((serving) => {
    const policy = policyOf(serving.name);
    const engines = enginesOf(policy);
    const failure = keeper.failureOf(policy) ?? keeper.failureOf(canaryPolicyOf(serving.name));
    const nobody = serving.beside === "" ? NO_ENGINE : `No engine of "${serving.beside}" has read it yet.`;
    const message = failure ?? (engines > 0 ? "" : nobody);
    return { serving, engines, canaryEngines: enginesOf(canaryPolicyOf(serving.name)), message, url };
  });
}

function serves({ state, policy, adapters }: Engine, wanted: string): boolean {
  const all = [policy, ...adapters.map((adapter) => adapter.policy)];
  return state === EngineState.SERVING && all.some((one) => one?.policy === wanted);
}

const NO_ENGINE = "No engine serves it yet: it is being read, or jobs have all engines.";
