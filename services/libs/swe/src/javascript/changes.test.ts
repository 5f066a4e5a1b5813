// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type Change, changesIn } from "./changes.ts";
import { tamperingNames } from "./tampering.ts";

const SOURCE = `'use strict';
(function () {
  var clamp = function (value, low = 0) {
    if (value < low) { return low; }
    return value && check(value, low) ? value : !low;
  };
  module.exports.total = function (ä, all) {
    for (var i = 0; i < all.length; i += 1) {
      if (ä) { continue; }
      log(all[i]);
    }
    return all;
  };
  class Account {
    pay(amount) {
      this.sum -= amount;
      return true;
    }
  }
})();
`;

function applied({ start, end, text }: Change): string {
  const bytes = Buffer.from(SOURCE);
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(text), bytes.subarray(end)]).toString();
}

/** The line that a change makes different, as it is then. */
function line(change: Change): string {
  return applied(change).split("\n")[change.line - 1]?.trim() ?? "";
}

describe("bugs in JavaScript", () => {
  const all = changesIn(SOURCE);
  const of = (kind: string): string[] => all.filter((change) => change.kind === kind).map(line);

  it("are of functions with their names and first lines, within what is called at once too", () => {
    const places = new Set(all.map((change) => `${change.function}:${change.first_line}`));
    expect(places).toEqual(new Set(["clamp:3", "total:7", "Account.pay:15"]));
  });

  it.each([
    ["compare", "if (value <= low) { return low; }"],
    ["boolean", "return value || check(value, low) ? value : !low;"],
    ["swapped_arguments", "return value && check(low, value) ? value : !low;"],
    ["swapped_branches", "return value && check(value, low) ? !low : value;"],
    ["negation", "return value && check(value, low) ? value : (low);"],
    ["wrong_default", "var clamp = function (value, low = 1) {"],
    ["dropped_return", "return undefined;"],
    ["dropped_branch", "if (ä) { ; }"],
    ["off_by_one", "for (var i = 1; i < all.length; i += 1) {"],
    ["operator", "for (var i = 0; i < all.length; i -= 1) {"],
    ["operator", "this.sum += amount;"],
    ["loop_exit", "if (ä) { break; }"],
    ["dropped_call", ";"],
    ["flag", "return false;"],
    ["removed_body", 'throw new Error("not implemented");'],
  ])("%s: %s", (kind, changed) => {
    expect(of(kind)).toContain(changed);
  });

  it("leave a program", () => {
    expect(all.length).toBeGreaterThan(20);
    for (const change of all) expect(() => changesIn(applied(change))).not.toThrow();
  });
});

describe("what reaches for the tests", () => {
  it.each([
    ["process.exit(0)", "process"],
    ["globalThis.x = 1", "globalThis"],
    ['require("tape").Test.prototype.equal = 1', "require tape"],
    ['require("node:fs")', "require node:fs"],
    ['require("ta" + "pe")', "require of a name that is put together"],
    ["require.cache", "require."],
    ["Object.is = () => true", "a change of what JavaScript brings"],
    ["delete Array.prototype.map", "a change of what JavaScript brings"],
    ['[]["con" + "structor"]', "a name that is put together"],
    ['x["constructor"]', '"constructor"'],
    ["(() => 1).constructor", ".constructor"],
    ["module.parent.x = 1", ".parent"],
    ["({ toString() { return 1; } })", "toString:"],
    ["import('tape')", "import()"],
    ["new Proxy({}, {})", "Proxy"],
  ])("%s: %s", (code, name) => {
    expect(Object.keys(tamperingNames(code))).toContain(name);
  });

  it("is not what repairs need", () => {
    expect(tamperingNames(SOURCE)).toEqual({});
    expect(tamperingNames("exports.a = require('./b'); this.sum = list[i + 1].slice(0);")).toEqual({});
    expect(tamperingNames("no program (")).toEqual({});
  });
});
