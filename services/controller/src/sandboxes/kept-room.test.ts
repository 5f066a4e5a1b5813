// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { KeptRoom } from "./kept-room.ts";

it("room is kept for the second of a caller's pods, in its pool, until it is given up or too old", () => {
  let now = 0;
  const room = new KeptRoom(() => now);
  room.keep("a", "python");
  now = 1000;
  room.keep("b", "python");
  expect([room.forOthers("python", ["c"]), room.forOthers("node", ["c"])]).toEqual([2, 0]);
  expect(room.forOthers("python", ["c", "a"])).toBe(1);
  room.giveUp("b");
  expect(room.forOthers("python", [])).toBe(1);
  now = 150_000;
  expect(room.forOthers("python", [])).toBe(0);
});
