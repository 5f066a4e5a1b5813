// SPDX-License-Identifier: Apache-2.0
import {
  create,
  type DescEnum,
  type DescMessage,
  fromBinary,
  type JsonObject,
  type JsonValue,
  toBinary,
} from "@bufbuild/protobuf";
import { type BinaryWriter, BinaryWriter as Writer } from "@bufbuild/protobuf/wire";
import { type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { Findings } from "./violation.ts";
import { checkMessage } from "./validate-message.ts";

function pathsOf(spec: JobSpec): string[] {
  const found = new Findings();
  checkMessage(found, JobSpecSchema, spec);
  return found.violations.map(({ path }) => path);
}

/** Fields below a message, free-form JSON and time aside, as numbers from the root and as a path. */
function* fieldsOf(desc: DescMessage, at: { numbers: number[]; path: string }): Generator<EnumField> {
  for (const field of desc.fields) {
    const member = field.fieldKind === "list" ? "[0]" : "";
    const path = `${at.path}${at.path && "."}${field.localName}${member}`;
    const numbers = [...at.numbers, field.number];
    if (field.enum) yield { path, numbers, desc: field.enum };
    else if (field.message && !field.message.typeName.startsWith("google."))
      yield* fieldsOf(field.message, { numbers, path });
  }
}

interface EnumField {
  readonly path: string;
  readonly numbers: readonly number[];
  readonly desc: DescEnum;
}

/** A message that holds nothing but this number at that field. */
function holding([number = 0, ...inner]: readonly number[], value: number, writer: BinaryWriter): BinaryWriter {
  if (inner.length === 0) return writer.tag(number, 0).int32(value);
  return holding(inner, value, writer.tag(number, 2).fork()).join();
}

const enums = [...fieldsOf(JobSpecSchema, { numbers: [], path: "" })];

describe("what holds for every field", () => {
  it.each(enums.map((field) => [field.path, field] as const))("%s: numbers nobody named are refused", (path, field) => {
    const spec = (value: number): JobSpec =>
      fromBinary(JobSpecSchema, holding(field.numbers, value, new Writer()).finish());
    for (const number of [99, -1, 2 ** 31 - 1]) expect(pathsOf(spec(number))).toEqual([path]);
    for (const { number } of field.desc.values) expect(pathsOf(spec(number))).toEqual([]);
  });

  it("looks at the enums that a job has", () => {
    expect(enums.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["loop.deadlinePolicy", "algorithm.policyGradient.lossAggregation", "roles[0].advantage"]),
    );
  });

  it.each<[string, Parameters<typeof create<typeof JobSpecSchema>>[1], string[]]>([
    ["a number that is none", { limits: { gamma: Number.NaN } }, ["limits.gamma"]],
    ["an infinite number", { sampling: { temperature: -Infinity } }, ["sampling.temperature"]],
    ["an infinite number in arguments", { agent: { args: { a: [{ b: Infinity }] } } }, ["agent.args.a[0].b"]],
    ["arguments that are nested too deep", { agent: { args: nested(40) } }, [`agent.args${".a".repeat(32)}`]],
    ["lists that are nested too deep", { agent: { args: { a: lists(40) } } }, [`agent.args.a${"[0]".repeat(31)}`]],
    ["a text that goes on and on", { agent: { kind: "a".repeat(2000) } }, ["agent.kind"]],
    ["a text with NUL in it", { model: { path: "/a\0b" } }, ["model.path"]],
    ["a list without end", { roles: Array.from({ length: 100 }, () => ({ name: "a" })) }, ["roles"]],
    ["a duration that runs in both directions", { timeout: { seconds: 5n, nanos: -1 } }, ["timeout"]],
    ["a duration with more than a second of nanoseconds", { timeout: { nanos: 2_000_000_000 } }, ["timeout"]],
    [
      "a duration longer than history",
      { limits: { episodeTimeout: { seconds: 2n ** 62n } } },
      ["limits.episodeTimeout"],
    ],
  ])("refuses %s", (_name, spec, expected) => {
    expect(pathsOf(create(JobSpecSchema, spec))).toEqual(expected);
  });

  it("refuses fields that it does not know, with the message that has them (I11)", () => {
    const bytes = new Writer().tag(8, 2).fork().tag(4000, 0).int32(1).join().finish();
    expect(pathsOf(fromBinary(JobSpecSchema, bytes))).toEqual(["loop"]);
  });

  it("gives a path no second violation", () => {
    const found = new Findings();
    found.check("limits.gamma", false, "is out of range");
    checkMessage(found, JobSpecSchema, create(JobSpecSchema, { limits: { gamma: Number.NaN } }));
    expect(found.violations).toHaveLength(1);
  });

  it("takes an empty message, and what binary and JSON can say otherwise", () => {
    expect(pathsOf(create(JobSpecSchema))).toEqual([]);
    const spec = create(JobSpecSchema, {
      agent: { kind: "é", args: { a: [1, null, { b: "c" }] } },
      timeout: { seconds: -3n },
    });
    expect(pathsOf(fromBinary(JobSpecSchema, toBinary(JobSpecSchema, spec)))).toEqual([]);
  });
});

function nested(depth: number): JsonObject {
  return depth === 0 ? { a: {} } : { a: nested(depth - 1) };
}

function lists(depth: number): JsonValue[] {
  return depth === 1 ? [] : [lists(depth - 1)];
}
