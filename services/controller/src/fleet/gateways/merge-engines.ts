// SPDX-License-Identifier: Apache-2.0
/** What several replicas of the gateway say of their engines, as one list. Pure. */
import { type Engine, EngineState, type ServedAdapter } from "@whetstone/proto/inference/v1/inference";
import type { GatewayReplica } from "./gateway-replicas.ts";

/** An engine as one replica has it. */
export interface EngineView {
  readonly gateway: GatewayReplica;
  readonly engine: Engine;
}

/** An engine as all replicas have it together. */
export interface SeenEngine extends Engine {
  /** One of each replica that answered and knows the engine. */
  readonly views: readonly EngineView[];
}

/** The best of the states counts: an engine that one replica sends calls to is at work. */
const RANK: Partial<Record<EngineState, number>> = { [EngineState.SERVING]: 2, [EngineState.QUARANTINED]: 1 };

const rankOf = ({ state }: Engine): number => RANK[state] ?? 0;
const versionOf = ({ policy }: Pick<Engine, "policy">): bigint => policy?.policyVersion ?? -1n;

export function mergeEngines(views: readonly EngineView[]): SeenEngine[] {
  const byId = Map.groupBy(views, ({ engine }) => engine.id);
  return [...byId.values().map(mergeViews)];
}

function mergeViews(views: readonly EngineView[]): SeenEngine {
  const engines = views.map(({ engine }) => engine).sort(byRank);
  const [best] = engines as [Engine, ...Engine[]];
  return {
    ...best,
    inFlight: engines.reduce((sum, { inFlight }) => sum + inFlight, 0),
    reason: [...new Set(engines.map(({ reason }) => reason))].filter((reason) => reason !== "").join("; "),
    maxModelLen: Math.max(...engines.map(({ maxModelLen }) => maxModelLen)),
    adapters: mergeAdapters(engines.flatMap(({ adapters }) => adapters)),
    views,
  };
}

/** Of several versions of a policy the newest. */
function mergeAdapters(all: readonly ServedAdapter[]): ServedAdapter[] {
  return [...Map.groupBy(all, ({ policy }) => policy?.policy).values()].map((same) => ({
    ...(same.toSorted((a, b) => Number(versionOf(b) - versionOf(a)))[0] as ServedAdapter),
    inFlight: same.reduce((sum, { inFlight }) => sum + inFlight, 0),
  }));
}

function byRank(a: Engine, b: Engine): number {
  return rankOf(b) - rankOf(a) || Number(versionOf(b) - versionOf(a));
}

/** Calls that wait, by policy, at all replicas together. */
export function sumWaiting(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const waiting of all)
    for (const [policy, calls] of Object.entries(waiting)) sums[policy] = (sums[policy] ?? 0) + calls;
  return sums;
}
