// SPDX-License-Identifier: Apache-2.0
import { asNumber, evaluate, type Variables, variablesOf } from "./math-evaluate.ts";
import { MathError } from "./math-error.ts";
import { type Expression, parseExpression } from "./math-parser.ts";
import { equal, rational, type Rational, type Value } from "./rational.ts";

const MAX_VARIABLES = 3;
/** Doubles of a short formula are right to about 15 digits. */
const RELATIVE_TOLERANCE = 1e-12;
/** What is left of a zero that was computed: sin(π) is 1.2e-16. */
const ZERO_TOLERANCE = 1e-15;
/** At this many points both must be defined and agree. */
const NEEDED_POINTS = 4;

/** Numerators over 7 and 11 that no formula is likely to be special at; the last ones are negative or mixed. */
const POINTS: readonly (readonly [number, number, number])[] = [
  [9, 17, 29],
  [23, 5, 12],
  [31, 40, 3],
  [16, 26, 37],
  [4, 33, 19],
  [-13, 8, 24],
  [19, -25, 10],
  [-6, -38, -15],
];

/** Whether two formulas have the same value, for all values of their variables as far as eight points can tell. */
export function sameFormula(a: string, b: string): boolean {
  const left = read(a);
  const right = read(b);
  if (left === undefined || right === undefined) return false;
  const names = [...variablesOf(left, variablesOf(right))].sort();
  if (names.length > MAX_VARIABLES) return false;
  if (names.length === 0) return sameValue(valueAt(left, new Map()), valueAt(right, new Map())) === "same";
  return sameAtPoints(left, right, names);
}

function read(text: string): Expression | undefined {
  try {
    return parseExpression(withoutThousands(mixedNumber(text)));
  } catch (error) {
    if (error instanceof MathError) return undefined;
    throw error;
  }
}

/** "1 1/2" is one and a half; "2 x 10^5" and "2x10^5" are products. */
function mixedNumber(text: string): string {
  const mixed = /^(-?)\s*(\d+)\s+(\d+)\s*\/\s*(\d+)$/u.exec(text);
  if (mixed !== null) return `${mixed[1]}(${mixed[2]}+${mixed[3]}/${mixed[4]})`;
  return text.replace(/(\d)\s*[xX]\s*(10\s*\^)/gu, "$1*$2");
}

function withoutThousands(text: string): string {
  return text.replace(/(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)/gu, (number) => number.replaceAll(",", ""));
}

function sameAtPoints(left: Expression, right: Expression, names: readonly string[]): boolean {
  let agreed = 0;
  for (const point of POINTS) {
    const variables: Variables = new Map(names.map((name, i) => [name, coordinate(point[i] as number, i)]));
    const outcome = sameValue(valueAt(left, variables), valueAt(right, variables));
    if (outcome === "different") return false;
    if (outcome === "same") agreed += 1;
  }
  return agreed >= NEEDED_POINTS;
}

function coordinate(numerator: number, index: number): Rational {
  return rational(BigInt(numerator), index === 1 ? 11n : 7n);
}

/** Undefined: the formula has no value there. */
function valueAt(expression: Expression, variables: Variables): Value | undefined {
  try {
    return evaluate(expression, variables);
  } catch (error) {
    if (error instanceof MathError) return undefined;
    throw error;
  }
}

function sameValue(a: Value | undefined, b: Value | undefined): "same" | "different" | "undefined" {
  if (a === undefined && b === undefined) return "undefined";
  if (a === undefined || b === undefined) return "different";
  if (typeof a !== "number" && typeof b !== "number") return equal(a, b) ? "same" : "different";
  const [x, y] = [asNumber(a), asNumber(b)];
  const size = Math.max(Math.abs(x), Math.abs(y));
  const close = Math.abs(x - y) <= RELATIVE_TOLERANCE * size || size <= ZERO_TOLERANCE;
  return close ? "same" : "different";
}
