// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv } from "../test-support/stand-ins.ts";
import { createRegistry, defineEnvironment } from "./index.ts";

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

describe("registries", () => {
  it("make what was defined, from checked arguments", () => {
    const env = createRegistry("environment", [counting]).get("counting").create({ length: 1 });
    expect(env.step("", {})).toMatchObject({ terminated: true });
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
