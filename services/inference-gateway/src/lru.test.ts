// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { Lru } from "./lru.ts";

it("forgets what was unused for longest, by the number of entries", () => {
  const kept = new Lru<string, number>(2);
  kept.set("a", 1);
  kept.set("b", 2);
  kept.get("a");
  kept.set("c", 3);
  expect([...kept.entries()]).toEqual([
    ["a", 1],
    ["c", 3],
  ]);
});

it("forgets by weight, as much as one new entry needs", () => {
  const kept = new Lru<string, string>(10, { limit: 6, of: (_key, value) => value.length });
  for (const key of ["a", "b", "c"]) kept.set(key, "xx");
  kept.set("a", "xx");
  kept.delete("b");
  kept.set("d", "xxxx");
  expect([...kept.entries()].map(([key]) => key)).toEqual(["a", "d"]);
  kept.set("e", "too long for it");
  expect([...kept.entries()]).toEqual([]);
  kept.set("f", "xxxxxx");
  expect(kept.get("f")).toBe("xxxxxx");
});
