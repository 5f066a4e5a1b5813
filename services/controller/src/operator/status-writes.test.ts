// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { isSameStatus, mayWrite } from "./status-writes.ts";

const condition = (status: string, message = "") => ({ type: "Ready", status, reason: "R", message });

it("is the same in any order of fields, and not in any order of items", () => {
  expect(isSameStatus({ a: 1, b: { c: [1, 2], d: 2 } }, { b: { d: 2, c: [1, 2] }, a: 1 })).toBe(true);
  expect(isSameStatus({ a: [1, 2] }, { a: [2, 1] })).toBe(false);
  expect(isSameStatus(undefined, {})).toBe(true);
});

it("is written at once when a condition changes, else after a while", () => {
  const former = { conditions: [condition("True")] };
  expect(mayWrite(former, { conditions: [condition("False")] }, 0)).toBe(true);
  expect(mayWrite(former, { conditions: [condition("True", "other words")] }, 4_999)).toBe(false);
  expect(mayWrite(former, former, 5_000)).toBe(true);
});
