// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { mergeLoads } from "./merge-loads.ts";

type Told = readonly [inFlight: number, running: number | null, waiting: number | null];

const line = (id: string, [inFlight, running, waiting]: Told, state = "serving") => ({
  ...{ id, state, in_flight: inFlight, running, waiting },
});

it("is what the only replica says", () => {
  const load = { serving: 2, running: 7, waiting: 3, kv_use: 0.5 };
  expect(mergeLoads([load])).toEqual({ serving: 2, running: 7, waiting: 3, kvUse: 0.5 });
});

it("counts what an engine says once, and what waits at each replica", () => {
  const a = {
    serving: 2,
    running: 9,
    waiting: 5,
    kv_use: 0.5,
    queued: 4,
    engines: [line("e0", [3, 6, 1]), line("e1", [2, 3, 0])],
  };
  const b = {
    serving: 2,
    running: 9,
    waiting: 3,
    kv_use: 0.7,
    queued: 2,
    engines: [line("e0", [3, 6, 1]), line("e1", [1, 3, 0])],
  };
  expect(mergeLoads([a, b])).toEqual({ serving: 2, running: 9, waiting: 7, kvUse: 0.7 });
});

it("adds up the replicas' own calls where an engine does not say, and knows an engine that serves for one of them", () => {
  const a = {
    serving: 1,
    running: 3,
    waiting: 0,
    kv_use: null,
    queued: 0,
    engines: [line("e0", [3, null, null]), line("e1", [0, null, null], "fenced")],
  };
  const b = {
    serving: 2,
    running: 5,
    waiting: 0,
    kv_use: null,
    queued: 0,
    engines: [line("e0", [4, null, null]), line("e1", [1, null, null])],
  };
  expect(mergeLoads([a, b])).toEqual({ serving: 2, running: 8, waiting: 0, kvUse: undefined });
});
