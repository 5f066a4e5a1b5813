// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { ConfigError, isAbort, WhetstoneError } from "./index.ts";

it("keeps its own errors and wraps others with their cause", () => {
  const own = new WhetstoneError("NOT_FOUND", "no job");
  expect(WhetstoneError.from(own)).toBe(own);
  const cause = new TypeError("x is not a function");
  expect(WhetstoneError.from(cause)).toMatchObject({ code: "INTERNAL", retry: "never", cause });
  expect(WhetstoneError.from("text")).toMatchObject({ code: "INTERNAL", message: "text" });
});

it("tells cancels and time-outs apart, whoever made them", () => {
  expect(isAbort(AbortSignal.abort().reason)).toBe(true);
  expect(isAbort(Object.assign(new Error("x"), { code: "ABORT_ERR" }))).toBe(true);
  expect(isAbort(new WhetstoneError("CANCELLED", "x"))).toBe(true);
  expect(isAbort(new WhetstoneError("DEADLINE_EXCEEDED", "x"))).toBe(false);
  expect(isAbort(undefined)).toBe(false);
  expect(WhetstoneError.from(new DOMException("late", "TimeoutError")).code).toBe("DEADLINE_EXCEEDED");
  expect(WhetstoneError.from(AbortSignal.abort().reason).code).toBe("CANCELLED");
});

it("has a retry class by code, which the thrower may overrule", () => {
  expect(new WhetstoneError("UNAVAILABLE", "x").retry).toBe("safe");
  expect(new WhetstoneError("RESOURCE_EXHAUSTED", "x").retry).toBe("later");
  expect(new WhetstoneError("UNAVAILABLE", "x", { retry: "never" }).retry).toBe("never");
});

it("lists every violation in its message", () => {
  const error = new ConfigError([
    { path: "loop.batchGroups", reason: "too small" },
    { path: "", reason: "empty" },
  ]);
  expect(error.message).toBe("loop.batchGroups: too small\n(root): empty");
  expect(error).toBeInstanceOf(WhetstoneError);
});
