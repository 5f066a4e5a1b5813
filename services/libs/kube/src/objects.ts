// SPDX-License-Identifier: Apache-2.0
import type {
  V1ConfigMap,
  V1Deployment,
  V1Lease,
  V1Node,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodDisruptionBudget,
  V1Secret,
  V1Service,
} from "@kubernetes/client-node";

/** `metadata` as the API server sends it. Times are RFC 3339 text. */
export interface ObjectMeta {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface KubeObject {
  apiVersion?: string | undefined;
  kind?: string | undefined;
  metadata?: ObjectMeta | undefined;
}

/** What the server answers: an object with an identity. */
export type Stored<T> = Omit<T, "metadata"> & {
  metadata: ObjectMeta & { name: string; uid: string; resourceVersion: string };
};

/** What is sent: `apiVersion` and `kind` are filled in from the resource type. */
export type Draft<T> = Omit<Partial<T>, "metadata"> & { metadata: ObjectMeta };

/** A generated class as plain JSON: its dates are text on the wire, and so here. */
export type Plain<T> = T extends Date
  ? string
  : T extends readonly (infer U)[]
    ? Plain<U>[]
    : T extends object
      ? { [K in keyof T]: Plain<T[K]> }
      : T;
type Json<T> = Omit<Plain<T>, "apiVersion" | "kind" | "metadata"> & KubeObject;

export type Pod = Json<V1Pod>;
export type Service = Json<V1Service>;
export type ConfigMap = Json<V1ConfigMap>;
export type Secret = Json<V1Secret>;
export type Node = Json<V1Node>;
export type Deployment = Json<V1Deployment>;
export type PersistentVolumeClaim = Json<V1PersistentVolumeClaim>;
export type PodDisruptionBudget = Json<V1PodDisruptionBudget>;
export type Lease = Json<V1Lease>;

export interface ResourceType<T extends KubeObject> {
  readonly apiVersion: string;
  readonly kind: string;
  /** The last part of its path: `trainingjobs`. */
  readonly plural: string;
  readonly namespaced: boolean;
  /** Never there: carries the type. */
  readonly _object?: T;
}

/** `resource<TrainingJob>("whetstone.dev/v1alpha1", "TrainingJob", "trainingjobs")`. */
export function resource<T extends KubeObject>(
  apiVersion: string,
  kind: string,
  plural: string,
  options: { readonly namespaced?: boolean } = {},
): ResourceType<T> {
  return { apiVersion, kind, plural, namespaced: options.namespaced ?? true };
}

export const PODS = resource<Pod>("v1", "Pod", "pods");
export const SERVICES = resource<Service>("v1", "Service", "services");
export const CONFIG_MAPS = resource<ConfigMap>("v1", "ConfigMap", "configmaps");
export const SECRETS = resource<Secret>("v1", "Secret", "secrets");
export const NODES = resource<Node>("v1", "Node", "nodes", { namespaced: false });
export const NAMESPACES = resource<KubeObject>("v1", "Namespace", "namespaces", { namespaced: false });
export const VOLUME_CLAIMS = resource<PersistentVolumeClaim>("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
export const DEPLOYMENTS = resource<Deployment>("apps/v1", "Deployment", "deployments");
export const DISRUPTION_BUDGETS = resource<PodDisruptionBudget>(
  "policy/v1",
  "PodDisruptionBudget",
  "poddisruptionbudgets",
);
export const LEASES = resource<Lease>("coordination.k8s.io/v1", "Lease", "leases");

/** `/api/v1/namespaces/ns/pods/name/status`. */
export function pathOf(
  type: ResourceType<KubeObject>,
  at: {
    readonly namespace?: string | undefined;
    readonly name?: string | undefined;
    readonly sub?: string | undefined;
  },
): string {
  const root = type.apiVersion.includes("/") ? `/apis/${type.apiVersion}` : `/api/${type.apiVersion}`;
  const scope = type.namespaced && at.namespace !== undefined ? `/namespaces/${encodeURIComponent(at.namespace)}` : "";
  const name = at.name === undefined ? "" : `/${encodeURIComponent(at.name)}`;
  return `${root}${scope}/${type.plural}${name}${at.sub === undefined ? "" : `/${at.sub}`}`;
}

/** A controller reference: the garbage collector deletes the child with its owner. Both live in one namespace. */
export function ownedBy(
  owner: { readonly metadata: { readonly name: string; readonly uid: string } },
  type: Pick<ResourceType<KubeObject>, "apiVersion" | "kind">,
): OwnerReference {
  const { name, uid } = owner.metadata;
  const { apiVersion, kind } = type;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}
