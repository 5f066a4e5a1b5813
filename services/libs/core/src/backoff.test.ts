// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { exponentialBackoff, retry, WhetstoneError } from "./index.ts";

const unavailable = () => new WhetstoneError("UNAVAILABLE", "away");
const noSleep = () => Promise.resolve();

it("stays within its bounds for every attempt", () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 1000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, draw) => {
        const wait = exponentialBackoff({ initialMs: 100, maxMs: 5_000, random: () => draw })(attempt);
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(5_000);
      },
    ),
  );
  const full = exponentialBackoff({ initialMs: 100, maxMs: 450, random: () => 1 });
  expect([1, 2, 3, 4].map(full)).toEqual([100, 200, 400, 450]);
});

it("repeats what may be repeated and throws the last error", async () => {
  let calls = 0;
  const work = retry(
    () => {
      calls += 1;
      return calls < 3 ? Promise.reject(unavailable()) : Promise.resolve("ok");
    },
    { attempts: 5, sleep: noSleep },
  );
  expect(await work).toBe("ok");
  await expect(retry(() => Promise.reject(unavailable()), { attempts: 2, sleep: noSleep })).rejects.toThrow("away");
});

it.each([
  ["an abort", AbortSignal.abort().reason as Error],
  ["a final error", new WhetstoneError("INVALID_ARGUMENT", "no")],
  ["an unknown error", new Error("bug")],
])("does not repeat %s", async (_, error) => {
  let calls = 0;
  const fail = () => {
    calls += 1;
    return Promise.reject(error);
  };
  await expect(retry(fail, { attempts: 5, sleep: noSleep })).rejects.toBe(error);
  expect(calls).toBe(1);
});

it("stops waiting when the signal aborts", async () => {
  const controller = new AbortController();
  const work = retry(() => Promise.reject(unavailable()), {
    attempts: Number.POSITIVE_INFINITY,
    backoff: () => 60_000,
    signal: controller.signal,
  });
  setTimeout(() => {
    controller.abort(new WhetstoneError("CANCELLED", "enough"));
  }, 10);
  await expect(work).rejects.toThrow("enough");
});
