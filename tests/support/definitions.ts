// SPDX-License-Identifier: Apache-2.0
// Definitions of other projects' kinds (Kueue, KubeRay, LeaderWorkerSet, …): of the cluster, or of a folder of YAML files
// named by WHETSTONE_DEFINITIONS, e.g. `config/crd/bases` of those projects; a stand-in that takes anything is the last resort.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Kube, type KubeObject, resource, type ResourceType } from "@whetstone/kube";
import { waitFor } from "@whetstone/testkit";
import { parseAllDocuments } from "yaml";

interface Definition extends KubeObject {
  readonly kind?: string;
  metadata: NonNullable<KubeObject["metadata"]>;
  readonly spec: { readonly group: string; readonly names: { readonly plural: string } };
  readonly status?: unknown;
}
const DEFINITIONS = resource<Definition>(
  "apiextensions.k8s.io/v1",
  "CustomResourceDefinition",
  "customresourcedefinitions",
  { namespaced: false },
);

type Kind = Pick<ResourceType<KubeObject>, "apiVersion" | "kind" | "plural" | "namespaced">;

/** A kind is there until this is disposed. */
export interface Loan extends AsyncDisposable {
  readonly from: "cluster" | "folder" | "stand-in";
}

const nameOf = ({ apiVersion, plural }: Kind): string => `${plural}.${apiVersion.split("/")[0]}`;

/** Undefined: neither the cluster nor the folder has it. */
export async function borrowReal(kube: Kube, kind: Kind): Promise<Loan | undefined> {
  if (await kube.has(kind)) return { from: "cluster", [Symbol.asyncDispose]: async () => {} };
  const definition = fromFolder(kind);
  return definition && (await install(kube, kind, definition, "folder"));
}

/** Says so where it is a stand-in, which proves only that we are understood as we mean it. */
export async function borrow(kube: Kube, kind: Kind): Promise<Loan> {
  const real = await borrowReal(kube, kind);
  if (real) return real;
  console.log(`${kind.kind} is a stand-in: set WHETSTONE_DEFINITIONS to a folder with the real definition`);
  return await install(kube, kind, standIn(kind), "stand-in");
}

async function install(kube: Kube, kind: Kind, definition: Definition, from: Loan["from"]): Promise<Loan> {
  const { metadata, spec } = definition;
  await kube.apply(DEFINITIONS, { metadata, spec });
  await waitFor(() => kube.has(kind), { timeoutMs: 30_000, intervalMs: 100 });
  return { from, [Symbol.asyncDispose]: () => remove(kube, kind) };
}

/** It is served for a while after it was deleted: whoever looks then would take it for the cluster's own. */
async function remove(kube: Kube, kind: Kind): Promise<void> {
  await kube.delete(DEFINITIONS, nameOf(kind));
  await waitFor(async () => !(await kube.has(kind)), { timeoutMs: 60_000, intervalMs: 100 });
}

function fromFolder(kind: Kind): Definition | undefined {
  const folder = process.env["WHETSTONE_DEFINITIONS"];
  if (!folder) return undefined;
  for (const file of readdirSync(folder).filter((name) => /\.ya?ml$/.test(name)))
    for (const document of parseAllDocuments(readFileSync(join(folder, file), "utf8"))) {
      const object = document.toJS() as Definition | null;
      if (object?.kind === DEFINITIONS.kind && object.metadata.name === nameOf(kind)) return object;
    }
  return undefined;
}

function standIn(kind: Kind): Definition {
  const [group = "", name] = kind.apiVersion.split("/");
  const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } };
  const names = { kind: kind.kind, plural: kind.plural, singular: kind.kind.toLowerCase() };
  const versions = [{ name, served: true, storage: true, subresources: { status: {} }, schema }];
  const annotations = { "api-approved.kubernetes.io": "unapproved, a stand-in for tests" };
  return {
    metadata: { name: nameOf(kind), annotations },
    spec: { group, scope: kind.namespaced ? "Namespaced" : "Cluster", names, versions } as Definition["spec"],
  };
}
