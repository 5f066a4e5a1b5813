// SPDX-License-Identifier: Apache-2.0
/**
 * What the definition of a kind of ours is written with. One definition, `schema.ts` of the kind's folder, gives the type that
 * the code works with, the chart's CRD and the reference page (`make gen`, deploy/crds).
 */
import type { DescField } from "@bufbuild/protobuf";
import { rulesOf } from "@whetstone/contract/rules";
import type { KubeObject, ResourceType } from "@whetstone/kube";
import { z } from "zod";

export interface CelRule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
}

/** One of our kinds, as the API server knows it. Without the client library, which is loaded only where there is a cluster. */
export const ownKind = <T extends KubeObject>(kind: string, plural: string): ResourceType<T> => ({
  ...{ apiVersion: "whetstone.dev/v1alpha1", kind, plural, namespaced: true },
});

export interface Column {
  readonly name: string;
  readonly type: "string" | "integer" | "date";
  readonly jsonPath: string;
  readonly description?: string;
  /** 1: only with `-o wide`. */
  readonly priority?: number;
}

export interface CustomResource {
  readonly kind: string;
  readonly plural: string;
  readonly shortName: string;
  readonly description: string;
  readonly maxNameLength: number;
  /** Has the subresource `scale`: spec.replicas, status.replicas, status.selector. */
  readonly isScaled?: boolean;
  readonly columns: readonly Column[];
  /** Of the whole object, beside that of its name. */
  readonly rules?: readonly CelRule[];
  readonly spec: z.ZodType;
  readonly status: z.ZodType;
}

export const rules = (...all: readonly CelRule[]) => ({ "x-kubernetes-validations": all });
/** A count that the contract bounds, too: a call and an edit of the object may set it. */
export function asContract(field: DescField) {
  const { min = 0, max = 0 } = rulesOf(field).range ?? {};
  return int32(min, max);
}
export const int32 = (min: number, max: number) => z.int().min(min).max(max).meta({ format: "int32" });
/** What the controller counts, without a bound. */
export const int64 = () => z.int().meta({ format: "int64" });
export const text = (max: number) => z.string().max(max);
export const name = (max = 253) => z.string().min(1).max(max);
export const time = () => z.string().meta({ format: "date-time" });
/** A part of somebody else's API: passed on as it is. */
export const passedOn = <T extends object = object>() =>
  z.custom<T>().meta({ type: "object", "x-kubernetes-preserve-unknown-fields": true });
export const listBy = (key: string) => ({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] });
/** Lists of types and reasons are closed: the API server refuses others. */
export function conditions<Type extends string, Reason extends string>(
  types: readonly Type[],
  reasons: readonly Reason[],
  { maxMessage = 32_768 } = {},
) {
  const condition = z.object({
    type: z.enum(types),
    status: z.enum(["True", "False", "Unknown"]),
    reason: z.enum(reasons),
    message: text(maxMessage),
    observedGeneration: int64().exactOptional(),
    lastTransitionTime: time(),
  });
  return z.array(condition).meta(listBy("type"));
}
