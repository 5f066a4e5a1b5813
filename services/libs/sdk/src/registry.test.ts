// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv } from "../test-support/stand-ins.ts";
import { createRegistry, defineAgent, defineEnvironment, defineRollout } from "./index.ts";

const counting = defineEnvironment<{ length: number }>({
  kind: "counting",
  description: "Counts.",
  seedable: true,
  argsSchema: {},
  parseArgs: ({ length }) => {
    if (typeof length !== "number") throw new ConfigError([{ path: "length", reason: "must be a number" }]);
    return { length };
  },
  create: ({ length }) => new CountingEnv(length),
});

describe("a definition with a schema and no parser", () => {
  it("refuses what its schema refuses, by path", () => {
    const argsSchema = { type: "object", properties: { size: { type: "number" } }, additionalProperties: false };
    const agent = defineAgent({ kind: "own", argsSchema, create: () => undefined as never });
    expect(() => agent.create({ size: "4" })).toThrow(/args\.size: /);
    expect(() => agent.create({ sise: 4 })).toThrow(/args\.sise: /);
    expect(() => agent.create({ size: 4 })).not.toThrow();
  });

  it("needs a parser where its schema cannot be checked", () => {
    const argsSchema = { type: "object", not: { required: ["size"] } };
    const define = () => defineAgent({ kind: "own", argsSchema, create: () => undefined as never });
    expect(define).toThrow(/argsSchema of "own" cannot be checked.*give parseArgs/);
  });
});

describe("registries", () => {
  it("make what was defined, from checked arguments", () => {
    const env = createRegistry("environment", [counting]).get("counting").create({ length: 1 });
    expect(env.step("", {})).toMatchObject({ terminated: true });
  });

  it("need no more than a kind and a maker", () => {
    const plain = defineEnvironment({ kind: "plain", create: ({ length }) => new CountingEnv(Number(length)) });
    expect(plain).toMatchObject({
      form: "environment",
      description: "",
      argsSchema: { type: "object" },
      seedable: false,
    });
    expect(plain.create({ length: 1 }).step("", {})).toMatchObject({ terminated: true });
    expect(() => defineEnvironment({ kind: "", create: () => new CountingEnv() })).toThrow(/needs a kind/);
  });

  it("give a rollout its checked arguments", async () => {
    const rollout = defineRollout<number>({ kind: "r", parseArgs: ({ n }) => Number(n) + 1, run: ({ args }) => args });
    expect(await rollout.create({ n: 1 })({} as never)).toBe(2);
  });

  it("refuse arguments as a broken task, by path", () => {
    expect(() => counting.create({})).toThrow(
      expect.objectContaining({
        code: "TASK_INVALID",
        violations: [{ path: "args.length", reason: "must be a number" }],
      }),
    );
  });

  it("name the known kinds, and take each kind once", () => {
    expect(() => createRegistry("environment", [counting]).get("x")).toThrow(
      'unknown environment "x"; known: counting',
    );
    expect(() => createRegistry("environment", [counting, counting])).toThrow(/same kind/);
  });
});
