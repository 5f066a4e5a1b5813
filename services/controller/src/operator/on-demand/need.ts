// SPDX-License-Identifier: Apache-2.0
// Engines and trainer that are there only on demand: for whom, and where.
import type { JsonObject } from "@bufbuild/protobuf";
import type { FleetTemplate, StoredFleet } from "../inference-fleet/schema.ts";
import { placed, type Placement, type Placements } from "../kueue/placement.ts";

export interface Need {
  /** False: a job is only to be deleted. */
  readonly engines: boolean;
  /** False: whoever waits has a trainer of its own. */
  readonly trainer: boolean;
  /** What Kueue wants of the pods of the job that comes first. */
  readonly placements: Placements;
}

/** Names of the pod sets by which a queued job reserves the installation's parts. */
export const POD_SETS = { engines: "engines", trainer: "trainer" } as const;

/** A fleet as it has to be now: one on demand wants nothing while nobody needs it, and goes where the job's quota is. */
export function fleetFor(fleet: StoredFleet, need: Need | undefined): StoredFleet {
  const { spec } = fleet;
  if (!spec.onDemand) return fleet;
  if (!need?.engines) return { ...fleet, spec: { ...spec, replicas: 0 } };
  return { ...fleet, spec: { ...spec, template: templateAt(spec.template, need.placements.get(POD_SETS.engines)) } };
}

/** A fleet's template has the fields of a pod's metadata and spec side by side. */
function templateAt(template: FleetTemplate, placement: Placement | undefined): FleetTemplate {
  if (!placement) return template;
  const { labels, annotations, nodeSelector, tolerations } = template as Readonly<Record<string, unknown>> as Record<
    string,
    JsonObject | undefined
  >;
  const metadata = { ...(labels && { labels }), ...(annotations && { annotations }) };
  const spec = { ...(nodeSelector && { nodeSelector }), ...(tolerations && { tolerations }) };
  const pod = placed({ metadata, spec }, placement);
  return { ...template, ...(pod["metadata"] as object), ...(pod["spec"] as object) };
}
