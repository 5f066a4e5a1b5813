// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";

import { crashesAfter, restartDelay } from "./backoff.ts";
import { startLayers } from "./start-order.ts";

it("doubles from 0.2 s to 5 s", () => {
  expect([1, 2, 3, 4, 5, 6, 20].map(restartDelay)).toEqual([200, 400, 800, 1600, 3200, 5000, 5000]);
});

it("starts anew after 30 s of health", () => {
  expect(crashesAfter(4, 29_999)).toBe(5);
  expect(crashesAfter(4, 30_000)).toBe(1);
});

it("puts services into layers and refuses a cycle", () => {
  const service = (name: string, ...needs: string[]) => ({ name, needs });
  const layers = startLayers([service("c", "a", "b"), service("a"), service("b", "a")]);
  expect(layers.map((layer) => layer.map(({ name }) => name))).toEqual([["a"], ["b"], ["c"]]);
  expect(() => startLayers([service("a", "b"), service("b", "a")])).toThrow("services wait for each other: a, b");
});
