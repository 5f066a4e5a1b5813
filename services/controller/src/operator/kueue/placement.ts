// SPDX-License-Identifier: Apache-2.0
// Where Kueue wants the pods of a job: what its own integrations put on the templates of the jobs that they start.
import type { JsonObject } from "@bufbuild/protobuf";
import type { Stored } from "@whetstone/kube";
import type { PodMarks, ResourceFlavor, Workload } from "./workload.ts";

/** By pod set's name. */
export type Placements = ReadonlyMap<string, Placement>;

export interface Placement extends PodMarks {
  /** Kueue takes it away when it has chosen a node. */
  readonly schedulingGates: readonly { readonly name: string }[];
}

type Assignment = NonNullable<NonNullable<NonNullable<Workload["status"]>["admission"]>["podSetAssignments"]>[number];

const PREFIX = "kueue.x-k8s.io";
const GATE = { name: `${PREFIX}/topology` };

/** Names of the flavors that a job was given. */
export function flavorsOf({ status }: Workload): string[] {
  const assignments = status?.admission?.podSetAssignments ?? [];
  return [...new Set(assignments.flatMap(({ flavors = {} }) => Object.values(flavors)))];
}

/** @param flavors  by name, those of `flavorsOf` */
export function placementsOf(workload: Stored<Workload>, flavors: ReadonlyMap<string, ResourceFlavor>): Placements {
  const assignments = workload.status?.admission?.podSetAssignments ?? [];
  return new Map(assignments.map((one) => [one.name, placementOf(workload, one, flavors)]));
}

function placementOf(
  workload: Stored<Workload>,
  assignment: Assignment,
  flavors: ReadonlyMap<string, ResourceFlavor>,
): Placement {
  const { name, topologyAssignment } = assignment;
  const given = [...new Set(Object.values(assignment.flavors ?? {}))].map((flavor) => flavors.get(flavor)?.spec);
  const checks = (workload.status?.admissionChecks ?? []).flatMap(({ podSetUpdates = [] }) =>
    podSetUpdates.filter((update) => update.name === name),
  );
  const own = { [`${PREFIX}/workload`]: workload.metadata.name, ...topologyOf(workload, assignment) };
  const merge = (maps: (Readonly<Record<string, string>> | undefined)[]) =>
    Object.assign({}, ...maps) as Record<string, string>;
  return {
    labels: merge([{ [`${PREFIX}/podset`]: name }, queuesOf(workload), ...checks.map(({ labels }) => labels)]),
    annotations: merge([own, ...checks.map(({ annotations }) => annotations)]),
    nodeSelector: merge([...given.map((spec) => spec?.nodeLabels), ...checks.map(({ nodeSelector }) => nodeSelector)]),
    tolerations: [...given, ...checks].flatMap((spec) => spec?.tolerations ?? []),
    schedulingGates: topologyAssignment ? [GATE] : [],
  };
}

/** By these a cluster's administrator sums up what a queue's pods use. They are not what puts a pod into a queue. */
function queuesOf({ spec, status }: Workload): Record<string, string> {
  const queues = { local: spec?.queueName, cluster: status?.admission?.clusterQueue };
  // Names of queues may be longer than labels.
  const named = Object.entries(queues).filter(([, name = ""]) => /^[a-z0-9-]{1,63}$/.test(name));
  return Object.fromEntries(named.map(([which, name = ""]) => [`${PREFIX}/${which}-queue-name`, name]));
}

/** Kueue's ungater looks only at pods that say what topology they asked for. */
function topologyOf({ spec }: Workload, { name, topologyAssignment }: Assignment): Record<string, string> {
  if (!topologyAssignment) return {};
  const { required, preferred } = spec?.podSets?.find((podSet) => podSet.name === name)?.topologyRequest ?? {};
  if (required) return { [`${PREFIX}/podset-required-topology`]: required };
  if (preferred) return { [`${PREFIX}/podset-preferred-topology`]: preferred };
  return { [`${PREFIX}/podset-unconstrained-topology`]: "true" };
}

/** The pod template with what Kueue wants of it; as it is where Kueue has no say. */
export function placed(template: JsonObject, placement: Placement | undefined): JsonObject {
  if (!placement) return template;
  const { labels, annotations, nodeSelector, tolerations, schedulingGates } = placement;
  const metadata = objectIn(template, "metadata");
  const spec = objectIn(template, "spec");
  const known = listIn(spec, "tolerations");
  const more = tolerations.filter((one) => !known.some((other) => JSON.stringify(other) === JSON.stringify(one)));
  return {
    ...template,
    metadata: {
      ...metadata,
      labels: { ...objectIn(metadata, "labels"), ...labels },
      annotations: { ...objectIn(metadata, "annotations"), ...annotations },
    },
    spec: {
      ...spec,
      nodeSelector: { ...objectIn(spec, "nodeSelector"), ...nodeSelector },
      tolerations: [...known, ...more],
      ...(schedulingGates.length > 0 && { schedulingGates: [...listIn(spec, "schedulingGates"), ...schedulingGates] }),
    },
  };
}

const objectIn = (parent: JsonObject, field: string): JsonObject => (parent[field] ?? {}) as JsonObject;
const listIn = (parent: JsonObject, field: string): JsonObject[] => (parent[field] ?? []) as JsonObject[];
