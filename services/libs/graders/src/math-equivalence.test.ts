// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mathEquivalent } from "./math-equivalence.ts";
import { evaluateExpression } from "./math-evaluate.ts";

/** [answer, truth] that say the same. Many are the cases that peers' graders got wrong (hendrycks/math, PRM800K, Math-Verify). */
const SAME: readonly (readonly [string, string])[] = [
  // numbers and decimals
  ["42", "42"],
  ["42.", "42"],
  ["42.0", "42"],
  ["042", "42"],
  ["-7", "-7"],
  ["−7", "-7"],
  ["+7", "7"],
  [".5", "0.5"],
  ["0.50", "0.5"],
  ["$42$", "42"],
  ["**42**", "42"],
  ["\\text{42}", "42"],
  ["\\(42\\)", "42"],
  // thousands
  ["1,000", "1000"],
  ["1{,}000", "1,000"],
  ["12,345,678.5", "12345678.5"],
  ["\\$1,250", "1250"],
  ["1\\,000", "1000"],
  ["32,\\!349", "32349"],
  ["32,\\! 349", "32349"],
  ["1 000", "1000"],
  ["1000,99", "1000.99"],
  ["0,111", "0.111"],
  ["6 \\text{ and } 8", "6,8"],
  // names of results, chains, semicolons
  ["(3,2)", "(p,q)=(3,2)"],
  ["4, 5", "AB=4,CD=5"],
  ["7:32", "S_{MBCN}:S=7:32"],
  ["1", "|AB|=1"],
  ["2", "z = 1 + 1 = 2"],
  ["(0,0,0),(0,-2,6)", "(0;0;0),(0;-2;6)"],
  ["-12, -11", "-12;-11"],
  // inequalities and intervals
  ["x \\in [-2,7]", "-2 \\le x \\le 7"],
  ["1 \\ge x > 0", "0 < x \\le 1"],
  ["0 \\le x < 1", "[0,1)"],
  // matrices
  ["\\left[\\begin{array}{cc}1 & 2 \\\\3 & 4\\end{array}\\right]", "\\begin{pmatrix}1 & 2 \\\\3 & 4\\end{pmatrix}"],
  ["6 \\text{ or } 8", "8, 6"],
  // fractions
  ["1/2", "0.5"],
  ["\\frac{1}{2}", "0.5"],
  ["\\frac12", "\\frac{1}{2}"],
  ["\\dfrac{3}{4}", "\\tfrac34"],
  ["2/4", "1/2"],
  ["-\\frac{1}{3}", "\\frac{-1}{3}"],
  ["\\frac{1}{-3}", "-1/3"],
  ["½", "1/2"],
  ["\\frac{6}{3}", "2"],
  ["\\frac{\\frac{1}{2}}{3}", "1/6"],
  // mixed numbers
  ["1 1/2", "3/2"],
  ["1\\frac12", "1.5"],
  ["1\\frac{1}{2}", "\\frac{3}{2}"],
  ["-2 3/4", "-2.75"],
  // percent
  ["10\\%", "0.1"],
  ["10%", "10"],
  ["10 percent", "10\\%"],
  ["12.5%", "1/8"],
  ["0.5%", "0.005"],
  // scientific
  ["1.5e3", "1500"],
  ["1.5 \\times 10^3", "1500"],
  ["1.5x10^{3}", "1500"],
  ["6.02 × 10^{23}", "6.02e23"],
  ["2*10^{-3}", "0.002"],
  ["3 million", "3000000"],
  // units
  ["7 cm", "7"],
  ["7\\text{ cm}", "7"],
  ["7\\text{ cm}", "7 centimeters"],
  ["30^\\circ", "30"],
  ["30^{\\circ}", "30°"],
  ["5 apples", "5"],
  ["5 green apples", "5"],
  ["$5", "5 dollars"],
  ["\\$5.00", "5"],
  ["18 \\text{ square inches}", "18"],
  ["12\\text{ cm}^2", "12 cm^2"],
  ["12 cm²", "12 \\text{ square centimeters}"],
  ["60 mph", "60"],
  ["2 hours", "2 hrs"],
  // roots, powers, constants
  ["\\sqrt{4}", "2"],
  ["\\sqrt{8}", "2\\sqrt{2}"],
  ["2\\sqrt2", "2\\sqrt{2}"],
  ["\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}"],
  ["\\sqrt[3]{27}", "3"],
  ["√16", "4"],
  ["2^{10}", "1024"],
  ["2^10", "1024"],
  ["8^{2/3}", "4"],
  ["\\pi", "π"],
  ["2\\pi", "2π"],
  ["\\frac{\\pi}{2}", "0.5\\pi"],
  ["\\pi/4", "\\arctan 1"],
  ["5!", "120"],
  ["\\binom{5}{2}", "10"],
  ["\\log_2 8", "3"],
  ["\\ln(e^2)", "2"],
  ["\\sin(\\pi/6)", "1/2"],
  ["|−3|", "3"],
  ["\\left|-3\\right|", "3"],
  ["10^{100}", "1" + "0".repeat(100)],
  // algebra
  ["x+1", "1+x"],
  ["2x", "x*2"],
  ["2(x+1)", "2x+2"],
  ["(x+1)^2", "x^2+2x+1"],
  ["(x-1)(x+1)", "x^2-1"],
  ["\\frac{x^2-1}{x-1}", "x+1"],
  ["\\sin^2 x + \\cos^2 x", "1"],
  ["\\frac{x}{2}", "0.5x"],
  ["2ab", "ba*2"],
  ["x^2 y", "yx^2"],
  ["\\sqrt{x^2}", "|x|"],
  ["e^{2x}", "(e^x)^2"],
  ["\\theta/2", "0.5\\theta"],
  // x = …
  ["x = 5", "5"],
  ["5", "x=5"],
  ["x=\\frac{1}{2}", "0.5"],
  ["f(x) = 2x", "2x"],
  ["y = 2x + 1", "2x+1"],
  ["y=2x+1", "2x+1=y"],
  ["y - 2x = 1", "y=2x+1"],
  ["x \\ge 3", "x\\geq 3"],
  ["3 \\le x", "x >= 3"],
  // tuples, intervals, sets, lists
  ["(1,2)", "\\left(1,2\\right)"],
  ["(1, 2)", "(1.0, 4/2)"],
  ["[0,1)", "[0, 1)"],
  ["(-\\infty, 3]", "(-∞,3]"],
  ["(3, \\infty)", "(3,+\\infty)"],
  ["\\{1,2,3\\}", "\\{3,2,1\\}"],
  ["1, 2", "2, 1"],
  ["1 and 2", "1,2"],
  ["1 or 2", "2 or 1"],
  ["x=1, x=2", "1,2"],
  ["1,000, 2,000", "2000, 1000"],
  ["1 \\pm \\sqrt{2}", "1+\\sqrt2, 1-\\sqrt2"],
  ["(0,1)\\cup(2,3)", "(2,3) \\cup (0,1)"],
  ["\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}"],
  // words
  ["\\text{Monday}", "Monday"],
  ["monday", "Monday"],
  ["\\text{(B)}", "(B)"],
  ["Yes", "yes"],
  ["x \\in [0,1]", "x\\in[0, 1]"],
];

/** Pairs that are near but not the same, and texts that say nothing. */
const DIFFERENT: readonly (readonly [string, string])[] = [
  ["41", "42"],
  ["4", "42"],
  ["-42", "42"],
  ["420", "42"],
  ["", "42"],
  [" ", "42"],
  ["the answer", "42"],
  ["anything at all", "42"],
  ["42 43", "42"],
  ["2022", "2024-01-01"],
  ["2024-01-01", "2022"],
  ["1/2/2024", "0.5/2024"],
  ["[0,1]", "0 < x < 1"],
  ["0 < y < 1", "0 < x < 1"],
  ["1,222", "1.222"],
  ["(3,2)", "(p,q)=(2,3)"],
  ["5", "x+1=5"],
  ["12", "x = 12 = 13"],
  ["1 00", "100"],
  ["42 or 43", "42"],
  ["42, 43", "42"],
  ["0.333", "1/3"],
  ["0.3333333333", "1/3"],
  ["1/3", "0.3333333333"],
  ["3.14159", "\\pi"],
  ["22/7", "\\pi"],
  ["1.414", "\\sqrt{2}"],
  ["1/2", "1/3"],
  ["2/1", "1/2"],
  ["11/2", "1 1/2"],
  ["1\\frac12", "1/2"],
  ["10%", "0.01"],
  ["0.5%", "0.5"],
  ["0.1", "10"],
  ["1,00", "100"],
  ["1,000", "1"],
  ["7 cm", "7 m"],
  ["7 cm", "7 cm^2"],
  ["5 dollars", "5 cents"],
  ["30°", "30 radians"],
  ["7 cm", "8"],
  ["1.5e3", "1.5e4"],
  ["2^10", "2^11"],
  ["\\sqrt{2}", "2"],
  ["\\sqrt{-1}", "1"],
  ["\\sqrt{-x^2-1}", "\\ln(-x^2)"],
  ["1/0", "1/0 + 1"],
  ["x+1", "x-1"],
  ["x", "y"],
  ["2x", "x^2"],
  ["x^2", "|x|"],
  ["\\sqrt{x^2}", "x"],
  ["x", "5"],
  ["x=5", "x=6"],
  ["x=5", "y=5"],
  ["2+2=5", "5"],
  ["y=2x+1", "y=2x-1"],
  ["x>3", "x<3"],
  ["x \\ge 3", "x > 3"],
  ["(1,2)", "(2,1)"],
  ["(1,2)", "[1,2]"],
  ["[0,1)", "[0,1]"],
  ["(1,2)", "1,2"],
  ["(1,2,3)", "(1,2)"],
  ["\\{1,2\\}", "\\{1,2,3\\}"],
  ["\\{1,1,2\\}", "\\{1,2,2\\}"],
  ["1 \\pm 2", "1"],
  ["(0,1)", "(0,1)\\cup(2,3)"],
  ["\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2&3&4\\end{pmatrix}"],
  ["Monday", "Dynamo"],
  ["no", "on"],
  ["1 000 000 1", "10000001"],
  ["Tuesday", "Monday"],
  ["A", "B"],
  ["5x", "5"],
  ["5 m + 1", "5"],
  ["\\infty", "-\\infty"],
  ["10^{-20}", "10^{-21}"],
  ["10^{400}", "10^{401}"],
];

describe("equivalence", () => {
  it("has at least 120 cases", () => {
    expect(SAME.length + DIFFERENT.length).toBeGreaterThanOrEqual(120);
  });

  it.each(SAME)("%j is %j", (answer, truth) => {
    expect(mathEquivalent(answer, truth)).toBe(true);
    expect(mathEquivalent(truth, answer)).toBe(true);
  });

  it("a range may be answered by its interval, a pair not by a range: it may be a point", () => {
    expect(mathEquivalent("(-793, 10)", "-793 < a < 10")).toBe(true);
    expect(mathEquivalent("-793 < a < 10", "(-793, 10)")).toBe(false);
  });

  it.each(DIFFERENT)("%j is not %j", (answer, truth) => {
    expect(mathEquivalent(answer, truth)).toBe(false);
    expect(mathEquivalent(truth, answer)).toBe(false);
  });

  it("holds for every whole number written in several ways, and for no other number", () => {
    const number = fc.integer({ min: -1e9, max: 1e9 });
    fc.assert(
      fc.property(number, fc.integer({ min: 1, max: 999 }), (n, by) => {
        for (const form of [
          `${n}`,
          `${n}.0`,
          `\\frac{${n * by}}{${by}}`,
          n.toLocaleString("en-US"),
          `x=${n}`,
          `${n} km`,
        ]) {
          expect(mathEquivalent(form, `${n}`)).toBe(true);
          expect(mathEquivalent(form, `${n + by}`)).toBe(false);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe("hostile answers", () => {
  const hostile: readonly (readonly [string, string])[] = [
    ["power tower", "9^9^9"],
    ["high power tower", "9^9^9^9^9^9^9^9"],
    ["power tower of a fraction", "(9/7)^(9^9)"],
    ["negative tower", "9^{-9^{9}}"],
    ["factorials", "100!!!!!!"],
    ["a huge factorial", "999999999!"],
    ["a huge binomial", "\\binom{999999}{499999}"],
    ["a huge exponent", "1e999999999"],
    ["brackets", "(".repeat(400) + "1" + ")".repeat(400)],
    ["open brackets", "(".repeat(900)],
    ["roots", "\\sqrt".repeat(190) + "2"],
    ["minus signs", "-".repeat(900) + "1"],
    ["a long sum of powers", Array.from({ length: 90 }, (_, i) => `9^${300 - i}`).join("+")],
    ["a long sum of fractions", Array.from({ length: 90 }, (_, i) => `1/7^${200 + i}`).join("+")],
    ["a long product of variables", Array.from({ length: 90 }, () => "(x+y)^99").join("*")],
    ["a long list", "1,".repeat(450) + "1"],
    ["spaces", "1" + " ".repeat(900) + "2"],
    ["letters", "a".repeat(999)],
    ["words", "five ".repeat(190)],
    ["carets", "^ ".repeat(490)],
    ["a million characters", "9".repeat(1_000_000)],
    ["nothing but a bar", "|"],
    ["unbalanced", "\\frac{1}{"],
    ["prototype", "__proto__"],
    ["constructor", "constructor(1)"],
  ];

  it.each(hostile)("%s is answered at once, with no", (_, text) => {
    const before = process.cpuUsage();
    expect(mathEquivalent(text, "12345")).toBe(false);
    expect(mathEquivalent("12345", text)).toBe(false);
    expect(process.cpuUsage(before).user).toBeLessThan(500_000); // µs of CPU: the machine may be busy.
  });

  it("nesting is bounded, whatever nests", () => {
    for (const [open, close] of [
      ["(", ")"],
      ["-", ""],
      ["\\sqrt{", "}"],
      ["2^", ""],
      ["sin(", ")"],
    ] as const) {
      const nested = `${open.repeat(120)}1${close.repeat(120)}`;
      expect(() => evaluateExpression(nested)).toThrow(/nested too deeply/);
    }
  });

  it("never throws, and never calls a text without digits a number", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80, unit: "grapheme" }), (text) => {
        const same = mathEquivalent(text, "7919");
        expect(same && !/7/u.test(text.normalize("NFKD"))).toBe(false);
      }),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("\\frac", "{", "}", "(", ")", "1", "x", "^", "-", "\\sqrt", "|", ",", "%", "!")),
        (parts) => {
          expect(typeof mathEquivalent(parts.join(""), "\\frac{x}{2}")).toBe("boolean");
        },
      ),
      { numRuns: 2000 },
    );
  });
});
