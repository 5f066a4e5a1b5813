// SPDX-License-Identifier: Apache-2.0
/** The installation's trainer, where it is there only while a job needs it: a Deployment made from a PodTemplate. Pure. */
import { createHash } from "node:crypto";
import { type Deployment, type Draft, ownedBy, type Stored } from "@whetstone/kube";
import { placed } from "../kueue/placement.ts";
import { POD_TEMPLATES, type PodTemplate } from "../pod-template.ts";
import { type Need, POD_SETS } from "./need.ts";

/** On the template, and on what is made from it. */
export const ON_DEMAND = "whetstone.dev/on-demand";
/** Hash of everything that it was made from. */
const MADE_FROM = "whetstone.dev/template";
const SELECTOR = ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];

/** The Deployment that has to be there; undefined: none. */
export function trainerFor(pods: Stored<PodTemplate>, need: Need | undefined): Draft<Deployment> | undefined {
  if (!need?.trainer) return undefined;
  const template = placed(pods.template ?? {}, need.placements.get(POD_SETS.trainer));
  const { labels = {} } = (pods.template?.["metadata"] ?? {}) as { labels?: Record<string, string> };
  const matchLabels = Object.fromEntries(Object.entries(labels).filter(([label]) => SELECTOR.includes(label)));
  const spec = {
    replicas: 1,
    // Two at once would write to the same run folder.
    strategy: { type: "Recreate" },
    selector: { matchLabels },
    template,
  };
  return {
    metadata: {
      name: pods.metadata.name,
      labels: { ...matchLabels, "app.kubernetes.io/managed-by": "whetstone", [ON_DEMAND]: "trainer" },
      annotations: { [MADE_FROM]: createHash("sha256").update(JSON.stringify(spec)).digest("hex").slice(0, 10) },
      ownerReferences: [{ ...ownedBy(pods, POD_TEMPLATES), blockOwnerDeletion: false }],
    },
    spec: spec as unknown as NonNullable<Deployment["spec"]>,
  };
}

export function isMadeFrom(there: Deployment | undefined, wanted: Draft<Deployment>): boolean {
  return there?.metadata?.annotations?.[MADE_FROM] === wanted.metadata.annotations?.[MADE_FROM];
}
