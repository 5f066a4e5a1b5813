// SPDX-License-Identifier: Apache-2.0
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Path, reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { createValidator, type Violation as Broken } from "@bufbuild/protovalidate";
import { ConfigError, missing, outOfRange, type Violation } from "@whetstone/core";
import { numberOf, type Rules, rulesOf } from "./rules.ts";

const validator = createValidator();

/**
 * Every rule of the contract that a message breaks, one a path, in words that say what to do.
 * @throws when a rule cannot be computed, which is a fault of the contract and not of the message
 */
export function checkRules<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Violation[] {
  const result = validator.validate(schema, message);
  if (result.kind === "error") throw result.error;
  const root = reflect(schema, message);
  const found = [...(result.violations ?? []).map((broken) => explain(root, broken)), ...repeatedNames(root, "")];
  return found.filter(({ path }, i) => found.findIndex((other) => other.path === path) === i);
}

/** Of a request. @throws ConfigError with every violation */
export function requireRules<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): void {
  const violations = checkRules(schema, message);
  if (violations.length > 0) throw new ConfigError(violations);
}

/** A rule between fields names the one that has to change before its reason: "loop.batchGroups: must be …". */
const BELOW = /^([a-zA-Z][\w.[\]]*): (.*)$/s;

function explain(root: ReflectMessage, { field, ruleId, message }: Broken): Violation {
  const last = field.at(-1);
  const path = pathText(field);
  if (last?.kind === "oneof") return { path: pathText(field.slice(0, -1)), reason: needsOne(last) };
  const isStandard = ruleId === "required" || ruleId.includes(".");
  const desc = field.findLast((part) => part.kind === "field");
  if (isStandard && desc) return { path, reason: standardReason(ruleId, rulesOf(desc), valueAt(root, field), message) };
  const [, below, reason = message] = BELOW.exec(message) ?? [];
  return { path: [path, below].filter(Boolean).join("."), reason };
}

const needsOne = (oneof: { readonly fields: readonly { readonly jsonName: string }[] }): string =>
  `needs one of ${oneof.fields.map(({ jsonName }) => jsonName).join(", ")}`;

function standardReason(ruleId: string, rules: Rules, value: unknown, otherwise: string): string {
  const { range, hint, maxLength, maxItems } = rules;
  const [type, rule] = ruleId.split(".");
  if (ruleId === "required") return missing(range, hint);
  if (type === "string" && rule === "max_len")
    return `must have at most ${maxLength} characters, has ${(value as string).length}`;
  if (rule === "max_items") return `must have at most ${maxItems} members, has ${(value as { size: number }).size}`;
  if (range && type === "duration") return outOfRange(range, secondsOf(value), hint, " s");
  if (range) return outOfRange(range, String(value), hint);
  return hint === "" ? otherwise : `must be ${hint}`;
}

function secondsOf(value: unknown): number {
  return numberOf((value as ReflectMessage).message as unknown as { seconds: bigint; nanos: number });
}

function valueAt(root: ReflectMessage, path: Path): unknown {
  let value: unknown = root;
  for (const part of path) {
    if (part.kind === "field") value = (value as ReflectMessage).get(part);
    else if (part.kind === "list_sub") value = (value as { get(index: number): unknown }).get(part.index);
  }
  return value;
}

function pathText(path: Path): string {
  let text = "";
  for (const part of path) {
    if (part.kind === "field") text += `${text && "."}${part.localName}`;
    if (part.kind === "list_sub") text += `[${part.index}]`;
  }
  return text;
}

/** Lists whose members must have different names. CEL cannot say which member it is. */
function* repeatedNames(message: ReflectMessage, path: string): Generator<Violation> {
  for (const field of message.fields) {
    if (!message.isSet(field) || field.message === undefined) continue;
    const at = path === "" ? field.localName : `${path}.${field.localName}`;
    if (field.fieldKind === "message") yield* repeatedNames(message.get(field), at);
    if (field.fieldKind !== "list") continue;
    const { uniqueBy } = rulesOf(field);
    const seen = new Set<unknown>();
    for (const [i, item] of [...(message.get(field) as Iterable<ReflectMessage>)].entries()) {
      yield* repeatedNames(item, `${at}[${i}]`);
      const key = item.fields.find(({ name }) => name === uniqueBy);
      if (!key) continue;
      const value = item.get(key);
      if (seen.has(value))
        yield { path: `${at}[${i}].${key.localName}`, reason: `"${value as string}" is there already` };
      seen.add(value);
    }
  }
}
