// SPDX-License-Identifier: Apache-2.0
/** docs/kubernetes-objects.md: every field of our kinds. */
import type { CustomResource } from "../../services/controller/src/operator/custom-resource.ts";
import type { Schema } from "./schema.ts";

const HEAD = `# Objects of the cluster

<!-- Generated from services/controller/src/operator/*/schema.ts by \`make gen\`. Do not edit. -->

All are of \`whetstone.dev/v1alpha1\`. What breaks a rule is refused by the API server.
`;

type Row = readonly [path: string, type: string, range: string, value: string, meaning: string];

export function objectsReference(kinds: readonly { readonly kind: CustomResource; readonly schema: Schema }[]): string {
  const sections = kinds.map(({ kind, schema }) => {
    const rows = [
      ...fields(schema.properties?.["spec"] ?? {}, "spec"),
      ...fields(schema.properties?.["status"] ?? {}, "status"),
    ];
    const head = ["field", "type", "range", "default", "meaning"];
    const table = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
    return `## ${kind.kind}\n\n${kind.description} Short: \`${kind.shortName}\`.\n\n${table}\n`;
  });
  return [HEAD, ...sections].join("\n");
}

function* fields(schema: Schema, path: string): Generator<Row> {
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const at = `${path}.${name}`;
    const isRequired = schema.required?.includes(name) ?? false;
    yield [`\`${at}\``, typeOf(inner), rangeOf(inner), isRequired ? "required" : defaultOf(inner), meaningOf(inner)];
    if (at === "spec.job") continue; // docs/job-reference.md
    yield* fields(inner.items ?? inner, inner.items ? `${at}[]` : at);
  }
}

function typeOf({ type, items }: Schema): string {
  return type === "array" ? `list of ${items?.type ?? "any"}` : (type ?? "");
}

function rangeOf({ enum: choices, minimum, maximum }: Schema): string {
  if (choices) return choices.join(", ");
  if (minimum === undefined && maximum === undefined) return "";
  return maximum === undefined ? `at least ${minimum}` : `from ${minimum ?? 0} to ${maximum}`;
}

function defaultOf(schema: Schema): string {
  const value = schema["default"];
  if (typeof value === "string") return value;
  return value === undefined || typeof value === "object" ? "" : JSON.stringify(value);
}

const meaningOf = ({ description = "" }: Schema): string => description.replaceAll("|", "\\|");
