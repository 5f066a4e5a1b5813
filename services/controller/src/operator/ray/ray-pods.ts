// SPDX-License-Identifier: Apache-2.0
/** Head and workers of a RayCluster: what the chart says of every such pod, and what the job says of its own. Pure. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { placed, type Placements } from "../kueue/placement.ts";
import type { TrainingJobSpec } from "../training-job/schema.ts";

/** On the chart's PodTemplates: `head` or `workers`. */
export const RAY_TEMPLATE = "whetstone.dev/ray";

/** Pod templates of the installation. Absent: the job has to say everything. */
export interface RayTemplates {
  readonly head?: JsonObject | undefined;
  readonly workers?: JsonObject | undefined;
}

/** Probes of the chart ask the raylet here. */
const NODE_MANAGER_PORT = "6380";

/** A RayCluster's spec. Ranks are in the workers, one a device; without workers, in the head. */
export function groupsOf(
  { workers = 0, podTemplate = {} }: NonNullable<TrainingJobSpec["trainer"]> = {},
  templates: RayTemplates,
  placements: Placements,
): JsonObject {
  const { head = {}, workers: ofWorker = {} } = templates;
  const at = (template: JsonObject, podSet: string): JsonObject =>
    placed(template, placements.get(podSet) ?? placements.get("trainer"));
  if (workers === 0) {
    const alone = merged(head, podTemplate);
    const ranks = String(devicesOf(alone));
    const group = { rayStartParams: { "num-cpus": ranks }, template: at(withRanks(alone, ranks), "head") };
    return { headGroupSpec: group, workerGroupSpecs: [] };
  }
  const worker = merged(ofWorker, podTemplate);
  const service = withRanks(merged(head, withoutResources(podTemplate)), String(workers * devicesOf(worker)));
  const group = {
    ...{ groupName: "workers", replicas: workers, minReplicas: workers, maxReplicas: workers },
    rayStartParams: { "num-cpus": String(devicesOf(worker)), "node-manager-port": NODE_MANAGER_PORT },
    template: at(worker, "workers"),
  };
  // No rank may come to this head.
  const headGroupSpec = { rayStartParams: { "num-cpus": "0", "num-gpus": "0" }, template: at(service, "head") };
  return { headGroupSpec, workerGroupSpecs: [group] };
}

const GPU = "nvidia.com/gpu";

/** GPUs of a pod; a pod without is one rank on its CPU. */
function devicesOf(template: JsonObject): number {
  const { limits } = (firstOf(template)?.["resources"] ?? {}) as { limits?: Record<string, JsonValue> };
  return Number(limits?.[GPU] ?? 0) || 1;
}

function withRanks(template: JsonObject, ranks: string): JsonObject {
  const first = firstOf(template);
  if (!first) return template;
  const env = [{ name: "WHETSTONE_RANKS", value: ranks }];
  return merged(template, { spec: { containers: [{ name: first["name"] ?? "", env }] } });
}

function withoutResources(template: JsonObject): JsonObject {
  const { spec, ...rest } = template as { spec?: JsonObject } & JsonObject;
  if (!spec) return template;
  const containers = ((spec["containers"] ?? []) as JsonObject[]).map(({ resources: _, ...container }) => container);
  return { ...rest, spec: { ...spec, ...(containers.length > 0 && { containers }) } };
}

function firstOf(template: JsonObject): JsonObject | undefined {
  const { containers = [] } = (template["spec"] ?? {}) as { containers?: JsonObject[] };
  return containers[0];
}

/** As a strategic merge: objects field by field, lists whose items have names by these, mounts by their paths. */
function merged(base: JsonObject, over: JsonObject): JsonObject {
  const fields = Object.entries(over).map(([field, value]) => [field, mergedValue(base[field], value)] as const);
  return { ...base, ...Object.fromEntries(fields) };
}

function mergedValue(base: JsonValue | undefined, over: JsonValue): JsonValue {
  if (isObject(base) && isObject(over)) return merged(base, over);
  if (!Array.isArray(base) || !Array.isArray(over)) return over;
  const [mine, theirs] = [base.map(keyOf), over.map(keyOf)];
  if ([...mine, ...theirs].includes(undefined)) return over;
  const changed = base.map((item, i) => {
    const found = theirs.indexOf(mine[i]);
    return found < 0 ? item : mergedValue(item, over[found] as JsonValue);
  });
  return [...changed, ...over.filter((_, i) => !mine.includes(theirs[i]))];
}

function keyOf(item: JsonValue): string | undefined {
  if (!isObject(item)) return undefined;
  const key = item["mountPath"] ?? item["name"];
  return typeof key === "string" ? key : undefined;
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
