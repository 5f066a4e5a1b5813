// SPDX-License-Identifier: Apache-2.0
export {
  type Condition,
  type ConditionChange,
  datedConditions,
  findCondition,
  isTrue,
  setCondition,
} from "./conditions.ts";
export { elect, type ElectOptions } from "./election.ts";
export type { Leadership } from "./leadership.ts";
export { type EventText, recordEvent } from "./events.ts";
export { addFinalizer, hasFinalizer, removeFinalizer } from "./finalizers.ts";
export {
  type ApplyOptions,
  type CallOptions,
  type DeleteOptions,
  Kube,
  type KubeOptions,
  type ListOptions,
  openKube,
} from "./kube.ts";
export {
  type ConfigMap,
  type Deployment,
  DEPLOYMENTS,
  DISRUPTION_BUDGETS,
  type Draft,
  type KubeObject,
  type Lease,
  LEASES,
  NAMESPACES,
  type Node,
  NODES,
  type ObjectMeta,
  ownedBy,
  type OwnerReference,
  type PersistentVolumeClaim,
  type Plain,
  type Pod,
  type PodDisruptionBudget,
  PODS,
  resource,
  type ResourceType,
  type Secret,
  SECRETS,
  type Service,
  SERVICES,
  type Stored,
  VOLUME_CLAIMS,
} from "./objects.ts";
export { type Again, type Reconciler, type ReconcilerOptions, runReconciler } from "./reconciler.ts";
export { reflect, type ReflectOptions, type Reflector } from "./reflector.ts";
export type { RetryLimitOptions } from "./retry-limits.ts";
export type { Priority } from "./work-queue.ts";
