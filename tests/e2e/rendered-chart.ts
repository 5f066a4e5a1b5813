// SPDX-License-Identifier: Apache-2.0
// The chart's objects, as helm renders them, and what of them is looked at.
import { parseAllDocuments } from "yaml";
import { CHART, helm } from "./cluster.ts";

export interface ChartObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly args?: readonly string[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext?: Record<string, unknown>;
  readonly [field: string]: unknown;
}

export interface PodSpec {
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes?: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[];
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext?: Record<string, unknown>;
}

/** @returns complaints, none when all holds */
export type Check = (objects: readonly ChartObject[]) => string[];

export function render(values: readonly string[]): ChartObject[] {
  const flags = values.flatMap((value) => ["--set", value]);
  const manifest = helm("template", "rel", CHART, "--namespace", "there", ...flags);
  return parseAllDocuments(manifest)
    .map((document) => document.toJS() as ChartObject | null)
    .filter((object) => object !== null);
}

/** Pod templates, of whatever kind they are in. */
export function podsOf(objects: readonly ChartObject[]): PodSpec[] {
  return objects.flatMap((object) => findPods(object, `${object.kind}/${object.metadata.name}`));
}

function findPods(value: unknown, owner: string): PodSpec[] {
  if (typeof value !== "object" || value === null) return [];
  const { spec, metadata, containers } = value as {
    spec?: PodSpec;
    metadata?: { labels?: object };
    containers?: unknown;
  };
  if (spec !== undefined && Array.isArray(spec.containers))
    return [{ ...spec, owner, labels: { ...metadata?.labels } }];
  if (Array.isArray(containers)) return [{ ...(value as PodSpec), owner, labels: {} }];
  return Object.values(value).flatMap((field) => findPods(field, owner));
}

export const all = ({ containers, initContainers = [] }: PodSpec): Container[] => [...initContainers, ...containers];
export const named = (objects: readonly ChartObject[], kind: string): ChartObject[] =>
  objects.filter((object) => object.kind === kind);

export interface Policy {
  readonly podSelector: { matchLabels?: Record<string, string>; matchExpressions?: readonly { key: string }[] };
  readonly policyTypes: readonly string[];
  readonly ingress?: readonly { ports?: unknown }[];
  readonly egress?: readonly { ports?: readonly { port: number }[] }[];
}

export const policiesOf = (objects: readonly ChartObject[]): Policy[] =>
  named(objects, "NetworkPolicy").map((object) => object["spec"] as Policy);

export function selects({ podSelector }: Policy, labels: Readonly<Record<string, string>>): boolean {
  const equal = Object.entries(podSelector.matchLabels ?? {}).every(([key, value]) => labels[key] === value);
  return equal && (podSelector.matchExpressions ?? []).every(({ key }) => key in labels);
}
