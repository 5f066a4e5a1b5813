// SPDX-License-Identifier: Apache-2.0
/** The SDK's types of a job's settings, and the table by which it reads them. */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { isNeeded, rulesOf } from "@whetstone/contract/rules";
import { choicesOf, defaultOf, isDuration, meaningOf, purposeOf, rangeOf } from "./facts.ts";

const HEADER =
  "// SPDX-License-Identifier: Apache-2.0\n// Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit.\n";
/** What the SDK takes in a form of its own: classes, datasets, what \`grpo\` and \`sft\` make. */
const OWN_FORM = new Set([
  "agent",
  "environment",
  "train",
  "validation",
  "algorithm",
  "module",
  "name",
  "model",
  "dataset",
]);
const NOT_TYPED = new Set([
  "ModelSource",
  "AgentSpec",
  "EnvironmentSpec",
  "Dataset",
  "SeedRange",
  "Algorithm",
  "Module",
]);
/** Their fields stand beside those of the algorithm. */
const FLAT = new Set(["Optimizer", "Batching"]);
const ALGORITHMS = new Set(["PolicyGradient", "Sft"]);
const NAMES: Readonly<Record<string, string>> = {
  JobSpec: "Job",
  RolloutLimits: "Limit",
  PhaseTimeouts: "PhaseTimeout",
  ValidationVariant: "Variant",
};

const nameOf = ({ name }: { readonly name: string }): string => `${NAMES[name] ?? name}Settings`;
const note = (text: string): string => (text === "" ? "" : `/** ${text} */\n`);

export function settingsTypes(messages: readonly DescMessage[]): string {
  const typed = messages.filter(({ name, fields }) => !NOT_TYPED.has(name) && fields.length > 0);
  const enums = new Set(typed.flatMap(({ fields }) => fields.flatMap((field) => field.enum ?? [])));
  const aliases = [...enums].map(
    (desc) =>
      `${note(purposeOf(desc, messages))}export type ${desc.name} = ${choicesOf(desc)
        .map((name) => `"${name}"`)
        .join(" | ")};`,
  );
  const types = typed.map((message) => typeDeclaration(message, messages));
  return `${HEADER}import type { Duration } from "../duration.ts";\n\n${[...aliases, ...types].join("\n\n")}\n`;
}

function typeDeclaration(message: DescMessage, messages: readonly DescMessage[]): string {
  if (isChoice(message))
    return `${note(purposeOf(message, messages))}export type ${message.name} = ${choiceType(message)};`;
  const isFlat = (inner: DescMessage | undefined) => inner !== undefined && FLAT.has(inner.name);
  const flat = ALGORITHMS.has(message.name) ? message.fields.filter((field) => isFlat(field.message)) : [];
  const own = message.fields.filter(
    (field) => !flat.includes(field) && !(OWN_FORM.has(field.name) && isOuter(message)),
  );
  const bases = flat.map((field) => nameOf(field.message as DescMessage));
  if (own.length === 0)
    return `${note(purposeOf(message, messages))}export type ${nameOf(message)} = ${bases.join(" & ")};`;
  const members = own.map((field) => {
    const told = [meaningOf(field, messages), factsOf(field)].filter(Boolean).join(" ");
    const optional = rulesOf(field).isRequired ? ["", ""] : ["?", " | undefined"];
    return `${note(told)}readonly ${field.jsonName}${optional[0]}: ${fieldType(field)}${optional[1]};`;
  });
  const base = bases.length > 0 ? ` extends ${bases.join(", ")}` : "";
  return `${note(purposeOf(message, messages))}export interface ${nameOf(message)}${base} {\n${members.join("\n")}\n}`;
}

const isOuter = ({ name }: DescMessage): boolean => name === "JobSpec" || name === "Validation";

/** "From 2 to 1024. Default 0.2." */
function factsOf(field: DescField): string {
  const range = field.enum ? "" : rangeOf(field);
  const value = defaultOf(field);
  const first = range === "" ? "" : `${range[0]?.toUpperCase()}${range.slice(1).replace(/\.$/, "")}.`;
  const isText = field.enum !== undefined || field.scalar === ScalarType.STRING;
  return [first, value !== undefined && `Default ${isText ? `"${value}"` : value}.`].filter(Boolean).join(" ");
}

/** A message that is nothing but one of several: given by its name alone where that has no settings. */
function isChoice({ fields, oneofs }: DescMessage): boolean {
  return oneofs.length === 1 && oneofs[0]?.fields.length === fields.length && fields.length > 1;
}

function choiceType({ fields }: DescMessage): string {
  const kinds = fields.map(({ jsonName, message }) =>
    message?.fields.length === 0
      ? `"${jsonName}"`
      : `{ readonly ${jsonName}: ${message ? nameOf(message) : "string"} }`,
  );
  return kinds.join(" | ");
}

function fieldType(field: DescField): string {
  if (field.fieldKind === "list") return `readonly ${single(field)}[]`;
  return single(field);
}

function single(field: DescField): string {
  if (isDuration(field)) return "Duration";
  if (field.message) return isChoice(field.message) ? field.message.name : nameOf(field.message);
  if (field.enum) return field.enum.name;
  if (field.scalar === ScalarType.STRING) return "string";
  if (field.scalar === ScalarType.BOOL) return "boolean";
  return field.scalar === ScalarType.UINT64 ? "number | bigint" : "number";
}

/** Of a message's fields that have one: durations are milliseconds. */
export function settingsDefaults(message: DescMessage): string {
  const given = message.fields.flatMap((field): [string, unknown][] => {
    const value = defaultOf(field);
    if (value === undefined) return [];
    if (isDuration(field)) return [[field.jsonName, Number(value.replace(/s$/, "")) * 1000]];
    return [[field.jsonName, field.enum || field.scalar === ScalarType.STRING ? value : JSON.parse(value)]];
  });
  return `${HEADER}/** What an absent setting means. Durations are milliseconds. */
export const ${nameOf(message).toUpperCase().replace("SETTINGS", "_DEFAULTS")} = ${JSON.stringify(Object.fromEntries(given))};\n`;
}

export function settingsTable(messages: readonly DescMessage[]): string {
  const table = Object.fromEntries(messages.map((message) => [message.name, messageRule(message)]));
  const type = "Readonly<Record<string, MessageRules>>";
  return `${HEADER}import type { MessageRules } from "../settings-rules.ts";\n\nexport const MESSAGES: ${type} = ${JSON.stringify(table)};\n`;
}

function messageRule(message: DescMessage): object {
  const oneofs = message.oneofs
    .filter((oneof) => oneof.fields.length > 1) // `optional` makes a oneof of one
    .map((oneof) => ({ members: oneof.fields.map(({ jsonName }) => jsonName), isNeeded: isNeeded(oneof) }));
  const fields = Object.fromEntries(message.fields.map((field) => [field.jsonName, fieldRule(field)]));
  return { fields, ...(oneofs.length > 0 && { oneofs }), ...(isChoice(message) && { isChoice: true }) };
}

function fieldRule(field: DescField): object {
  const { isRequired, range, pattern, hint } = rulesOf(field);
  const inner = field.message;
  const type = inner ? wellKnown(inner) : field.enum ? "enum" : ScalarType[field.scalar].toLowerCase();
  return {
    type,
    ...(type === "message" && { message: inner?.name }),
    ...(field.enum && { prefix: field.enum.sharedPrefix?.toUpperCase(), choices: choicesOf(field.enum) }),
    ...(field.fieldKind === "list" && { isList: true }),
    ...(isRequired && { isRequired }),
    ...(range !== undefined && { range }),
    ...(pattern !== undefined && { pattern }),
    ...(hint !== "" && { hint }),
  };
}

function wellKnown({ typeName }: DescMessage): string {
  return { "google.protobuf.Duration": "duration", "google.protobuf.Struct": "mapping" }[typeName] ?? "message";
}
