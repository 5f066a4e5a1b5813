// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { renderCurve, resample } from "./curve.ts";

describe("renderCurve", () => {
  it("draws a rising line from bottom left to top right", () => {
    expect(renderCurve([0, 1, 2, 3, 4, 5, 6, 7], { columns: 4, rows: 2 })).toEqual(["7 ┤⠀⠀⡠⠊", "0 ┤⡠⠊⠀⠀"]);
  });

  it("draws a flat line in the middle and labels it", () => {
    expect(renderCurve([0.5, 0.5], { columns: 2, rows: 2 })).toEqual(["0.5 ┤⣀⣀", "0.5 ┤⠀⠀"]);
  });

  it("joins a jump, and leaves a gap where there is no value", () => {
    expect(renderCurve([0, 3, NaN, 3], { columns: 2, rows: 1 })[0]).toBe("3 ┤⡸⠈");
  });

  it("has nothing to show without values", () => {
    expect(renderCurve([], { columns: 10, rows: 3 })).toEqual([]);
    expect(renderCurve([NaN], { columns: 10, rows: 3 })).toEqual([]);
  });

  it("always fills exactly its size", () => {
    const sizes = fc.record({ columns: fc.integer({ min: 2, max: 40 }), rows: fc.integer({ min: 1, max: 8 }) });
    fc.assert(
      fc.property(
        fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 }),
        sizes,
        (values, size) => {
          const lines = renderCurve(values, size);
          expect(lines).toHaveLength(size.rows);
          for (const line of lines) expect(line.split("┤")[1]).toHaveLength(size.columns);
          expect(lines.join("")).toMatch(/[\u2801-\u28ff]/);
        },
      ),
    );
  });
});

it("resample averages many values and repeats few", () => {
  expect(resample([1, 3, 5, 7], 2)).toEqual([2, 6]);
  expect(resample([1, 2], 4)).toEqual([1, 1, 2, 2]);
});
