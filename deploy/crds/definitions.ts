// SPDX-License-Identifier: Apache-2.0
/** From the definition of a kind to the `spec` of its CRD. */
import { z } from "zod";
import type { CustomResource } from "../../services/controller/src/operator/custom-resource.ts";
import type { Schema } from "./schema.ts";

/** What zod makes of a schema: JSON Schema of 2020-12. */
type Json = { readonly [key: string]: unknown };

/** @param contract  the schema of a message of the contract, for fields that hold one */
export function definitionOf(kind: CustomResource, contract: (message: string) => Schema) {
  return {
    group: "whetstone.dev",
    scope: "Namespaced",
    names: {
      kind: kind.kind,
      listKind: `${kind.kind}List`,
      plural: kind.plural,
      singular: kind.kind.toLowerCase(),
      shortNames: [kind.shortName],
      categories: ["all"],
    },
    versions: [
      {
        name: "v1alpha1",
        served: true,
        storage: true,
        subresources: { status: {}, ...(kind.isScaled && { scale: SCALE }) },
        additionalPrinterColumns: kind.columns,
        schema: { openAPIV3Schema: objectSchema(kind, contract) },
      },
    ] as const,
  };
}

const SCALE = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.replicas",
  labelSelectorPath: ".status.selector",
};

function objectSchema(kind: CustomResource, contract: (message: string) => Schema): Json {
  const { description, maxNameLength, rules = [] } = kind;
  const name = {
    rule: `self.metadata.name.size() <= ${maxNameLength} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
    message: `must be a DNS label of at most ${maxNameLength} characters: a-z, 0-9 and inner dashes`,
  };
  return {
    description,
    type: "object",
    required: ["spec"],
    "x-kubernetes-validations": [name, ...rules],
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      spec: structural(jsonSchema(kind.spec), contract),
      status: structural(jsonSchema(kind.status), contract),
    },
  };
}

/** As it is written by users: what has a default may be absent. */
function jsonSchema(schema: z.ZodType): Json {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" });
}

/** The part of OpenAPI v3 that Kubernetes takes, "structural". */
function structural(schema: Json, contract: (message: string) => Schema): Json {
  const { $schema: _, propertyNames: _names, "x-contract": message, ...rest } = schema;
  if (typeof message === "string") return { ...contract(message), ...rest };
  const inner = (value: unknown): Json => structural(value as Json, contract);
  const { properties, items, additionalProperties, minimum, maximum, ...own } = rest;
  const isOpen = additionalProperties !== undefined && Object.keys(additionalProperties as Json).length === 0;
  return {
    ...own,
    ...(bounded(minimum) && { minimum }),
    ...(bounded(maximum) && { maximum }),
    ...(properties !== undefined && {
      properties: Object.fromEntries(Object.entries(properties as Json).map(([key, value]) => [key, inner(value)])),
    }),
    ...(items !== undefined && { items: inner(items) }),
    ...(isOpen && { "x-kubernetes-preserve-unknown-fields": true }),
    ...(additionalProperties !== undefined && !isOpen && { additionalProperties: inner(additionalProperties) }),
  };
}

/** zod says the ends of whole numbers where nobody set any. */
const NO_BOUNDS: readonly unknown[] = [
  undefined,
  Number.MAX_SAFE_INTEGER,
  Number.MIN_SAFE_INTEGER,
  2 ** 31 - 1,
  -(2 ** 31),
];
const bounded = (value: unknown): boolean => !NO_BOUNDS.includes(value);
