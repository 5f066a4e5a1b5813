// SPDX-License-Identifier: Apache-2.0
/** What is generated from the contract beside its messages says the same of each field, in the words of a job file. */
import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { rangeText } from "@whetstone/core";
import { rulesOf } from "@whetstone/contract/rules";
import { commentOf } from "./comments.ts";

/** A message and those below it, each once, the outer ones first. */
export function messagesBelow(message: DescMessage, found: DescMessage[] = []): DescMessage[] {
  if (found.includes(message) || message.typeName.startsWith("google.protobuf.")) return found;
  if (found.some(({ name }) => name === message.name)) throw new Error(`a job has two messages named ${message.name}`);
  found.push(message);
  for (const field of message.fields) if (field.message) messagesBelow(field.message, found);
  return found;
}

/** ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS_BASELINE → "reinforce++-baseline". Zero has no name: it is what absence means. */
export function choicesOf(desc: DescEnum): string[] {
  return desc.values.filter(({ number }) => number !== 0).map(({ name }) => choiceName(name, desc));
}

function choiceName(name: string, { sharedPrefix = "" }: DescEnum): string {
  return name.slice(sharedPrefix.length).toLowerCase().replaceAll("_plus", "+").replaceAll("_", "-");
}

export function isDuration(field: DescField): boolean {
  return field.message?.typeName === "google.protobuf.Duration";
}

/** "0.2", "true", "300s", "token-mean". Undefined: absence has a meaning of its own, or none. */
export function defaultOf(field: DescField): string | undefined {
  const { defaultValue } = rulesOf(field);
  if (defaultValue === "{}") return undefined;
  return field.enum && defaultValue !== undefined ? choiceName(defaultValue, field.enum) : defaultValue;
}

/** "from 2 to 1024". Empty: the type is all. */
export function rangeOf(field: DescField): string {
  const { range, hint, maxItems } = rulesOf(field);
  if (field.enum) return choicesOf(field.enum).join(", ");
  if (field.fieldKind === "list" && maxItems !== undefined) return `at most ${maxItems} members`;
  if (range !== undefined) return grouped(rangeText(range, isDuration(field) ? " s" : ""));
  return field.scalar === ScalarType.STRING ? hint : "";
}

/** 1000000 → 1,000,000. */
function grouped(text: string): string {
  return text.replaceAll(/(?<![\d.])\d{5,}/g, (digits) => Number(digits).toLocaleString("en-US"));
}

/** The comment of a field, else of its message or enum. */
export function meaningOf(field: DescField, messages: readonly DescMessage[]): string {
  const own = commentOf(field);
  if (own !== "") return inSettings(own, messages);
  const type = field.message ?? field.enum;
  return type === undefined || type.typeName.startsWith("google.") ? "" : purposeOf(type, messages);
}

export function purposeOf(type: DescMessage | DescEnum, messages: readonly DescMessage[]): string {
  return inSettings(commentOf(type), messages);
}

/** Fields and enum values by their names in a job file. */
function inSettings(text: string, messages: readonly DescMessage[]): string {
  const names = new Map<string, string>();
  for (const { name, jsonName, enum: desc } of messages.flatMap(({ fields }) => fields)) {
    names.set(name, jsonName);
    for (const value of desc?.values ?? []) names.set(value.name, choiceName(value.name, desc as DescEnum));
  }
  return text.replaceAll(/\b[a-zA-Z]+(_[a-zA-Z]+)+\b/g, (word) => names.get(word) ?? word);
}

/** "number", "duration", … as a reader of the reference knows it. */
export function typeOf(field: DescField): string {
  if (field.message)
    return isDuration(field) ? "duration" : field.message.name === "Struct" ? "mapping" : field.message.name;
  if (field.enum) return "choice";
  if (field.scalar === ScalarType.STRING) return "text";
  if (field.scalar === ScalarType.BOOL) return "true or false";
  return field.scalar === ScalarType.DOUBLE ? "number" : "whole number";
}
