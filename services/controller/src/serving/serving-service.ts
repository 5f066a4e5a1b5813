// SPDX-License-Identifier: Apache-2.0
import { equals } from "@bufbuild/protobuf";
import { requireRules } from "@whetstone/contract/check";
import { WhetstoneError } from "@whetstone/core";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
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
import { changeServing, foldersOf, newestOf, newServing, sourceOf, type Taken } from "./serving-record.ts";
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
  const { name, weight = 1, keys, source } = request;
  const known = await deps.store.find(name);
  if (known) return { serving: sameServing(known, source), created: false };
  const serving = await withWeights(deps, name, source, async (taken) => {
    const made = newServing({ name, weight, keys }, taken);
    await deps.store.create(made);
    return made;
  });
  return { serving, created: true };
}

async function change(deps: ServingServiceDeps, request: ChangeServingRequest): Promise<{ serving: Serving }> {
  requireRules(ChangeServingRequestSchema, request);
  const { name } = request;
  const before = foldersOf(await deps.store.get(name));
  const source = sourceOf(request);
  const apply = (taken: Taken | undefined): Promise<Serving> =>
    deps.store.change(name, (serving) => changeServing(serving, request, taken));
  const serving = await (source ? withWeights(deps, name, source, apply) : apply(undefined));
  const needed = foldersOf(serving);
  for (const folder of before) if (!needed.has(folder)) await deps.weights.drop(folder);
  return { serving };
}

/** What was taken for a change that is refused is dropped again. */
async function withWeights(
  { weights }: ServingServiceDeps,
  name: string,
  source: ServedSource | undefined,
  use: (taken: Taken) => Promise<Serving>,
): Promise<Serving> {
  if (!source) throw new WhetstoneError("INTERNAL", "the rules let a request pass that has no source");
  const taken = await weights.take(name, source);
  try {
    return await use(taken);
  } catch (error) {
    await weights.drop(taken.path);
    throw error;
  }
}

/** Asked for again: a job's newest weights may be others by now, but what is served stays. */
function sameServing(known: Serving, source: ServedSource | undefined): Serving {
  const served = newestOf(known).source;
  if (source && served && isSame(source, served)) return known;
  const advice = `\`whet servings set ${known.name} SOURCE\` gives it other weights`;
  throw new WhetstoneError("ALREADY_EXISTS", `"${known.name}" serves other weights: ${advice}`, { retry: "never" });
}

function isSame(asked: ServedSource, served: ServedSource): boolean {
  if (asked.kind.case === "job" && served.kind.case === "job" && asked.kind.value.policyVersion === undefined)
    return asked.kind.value.name === served.kind.value.name;
  return equals(ServedSourceSchema, asked, served);
}

async function viewsOf({ gateways, keeper, url = "" }: ServingServiceDeps, servings: readonly Serving[]) {
  const listed = await gateways.listEngines({}, { deadlineMs: LIST_MS }).catch(() => ({ engines: [] }));
  const enginesOf = (policy: string): number =>
    listed.engines.filter((engine) => engine.state === EngineState.SERVING && engine.policy?.policy === policy).length;
  return servings.map((serving) => {
    const policy = policyOf(serving.name);
    const engines = enginesOf(policy);
    const failure = keeper.failureOf(policy) ?? keeper.failureOf(canaryPolicyOf(serving.name));
    const message = failure ?? (engines > 0 ? "" : NO_ENGINE);
    return { serving, engines, canaryEngines: enginesOf(canaryPolicyOf(serving.name)), message, url };
  });
}

const NO_ENGINE = "No engine serves it yet: it is being read, or jobs have all engines.";
