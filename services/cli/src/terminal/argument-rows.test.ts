// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { z } from "zod";

import { argumentRows, type Schema } from "./argument-rows.ts";

function rowOf(type: z.ZodType): (string | undefined)[] {
  const schema = z.toJSONSchema(z.strictObject({ it: type }), { io: "input" }) as Schema;
  return argumentRows(schema)[0]?.slice(1) ?? [];
}

it.each([
  ["bounds", z.number().int().min(3).max(10).default(8), ["whole number", "3 to 10", "8", ""]],
  ["one bound", z.number().int().min(1).optional(), ["whole number", "at least 1", "", ""]],
  ["open bounds", z.number().gt(0).max(1).default(0.8), ["number", "over 0, at most 1", "0.8", ""]],
  ["a choice", z.enum(["all", "share"]).default("all"), ["all | share", "", '"all"', ""]],
  [
    "a text",
    z.string().min(1).describe("what is asked"),
    ["text", "at least 1 character", "required", "what is asked"],
  ],
  [
    "a list",
    z
      .array(z.enum(["a", "b"]))
      .max(3)
      .default(["a"]),
    ["list of a | b", "at most 3 members", '["a"]', ""],
  ],
  [
    "several types",
    z.union([z.string(), z.number(), z.array(z.string())]),
    ["text or number or list of text", "", "required", ""],
  ],
  ["a switch", z.boolean().default(false), ["true or false", "", "false", ""]],
  ["anything", z.unknown().optional(), ["any value", "", "", ""]],
])("%s", (_, type, row) => {
  expect(rowOf(type)).toEqual(row);
});
