// SPDX-License-Identifier: Apache-2.0
import { MathError } from "./math-error.ts";
import { add, divide, isWhole, negate, type Rational, rational, squareRoot, toNumber, type Value } from "./rational.ts";

/** 170! is the largest that a double holds. */
const MAX_FACTORIAL = 170n;
const MAX_BINOMIAL = 1000n;

const REAL: Readonly<Record<string, (...args: number[]) => number>> = {
  pi: () => Math.PI,
  e: () => Math.E,
  sqrt: Math.sqrt,
  cbrt: Math.cbrt,
  abs: Math.abs,
  exp: Math.exp,
  ln: Math.log,
  log: Math.log10,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  cot: (x) => 1 / Math.tan(x),
  sec: (x) => 1 / Math.cos(x),
  csc: (x) => 1 / Math.sin(x),
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  arcsin: Math.asin,
  arccos: Math.acos,
  arctan: Math.atan,
  floor: Math.floor,
  ceil: Math.ceil,
  round: Math.round,
  min: Math.min,
  max: Math.max,
  pow: Math.pow,
  mod: (a, b) => a - b * Math.floor(a / b),
  root: (x, degree) => realRoot(x, degree),
};

const EXACT: Readonly<Record<string, (...args: Rational[]) => Rational | undefined>> = {
  sqrt: squareRoot,
  abs: (x) => (x.numerator < 0n ? negate(x) : x),
  floor,
  ceil: (x) => negate(floor(negate(x))),
  round: (x) => floor(add(x, rational(1n, 2n))),
  min: (...all) => all.reduce((a, b) => (isLess(b, a) ? b : a)),
  max: (...all) => all.reduce((a, b) => (isLess(a, b) ? b : a)),
  mod: (a, b) => add(a, negate(rational(floor(divide(a, b)).numerator * b.numerator, b.denominator))),
  factorial: (x) => rational(factorial(wholeBetween(x, MAX_FACTORIAL, "factorial"))),
  binom: (n, k) => rational(binomial(wholeBetween(n, MAX_BINOMIAL, "binom"), wholeBetween(k, MAX_BINOMIAL, "binom"))),
  gcd: (...all) => rational(all.map(wholeOf).reduce(commonDivisor)),
  lcm: (...all) => rational(all.map(wholeOf).reduce((a, b) => (a === 0n ? 0n : (a / commonDivisor(a, b)) * b))),
};

/** @throws MathError where it is not defined. The result may be NaN or infinite. */
export function applyFunction(name: string, args: readonly Value[]): Value {
  const exact = Object.hasOwn(EXACT, name) ? EXACT[name] : undefined;
  if (exact !== undefined && args.every((argument) => typeof argument !== "number")) {
    const result = exact(...args);
    if (result !== undefined) return result;
  }
  const real = Object.hasOwn(REAL, name) ? REAL[name] : undefined;
  if (real === undefined) throw new MathError(`${name} needs whole numbers`);
  return real(...args.map((argument) => (typeof argument === "number" ? argument : toNumber(argument))));
}

/** Odd roots of negative numbers are real. */
function realRoot(x: number, degree: number): number {
  const rooted = Math.abs(x) ** (1 / degree);
  if (x >= 0) return rooted;
  return degree % 2 === 1 ? -rooted : Number.NaN;
}

function floor({ numerator, denominator }: Rational): Rational {
  const cut = numerator / denominator;
  return rational(numerator < 0n && cut * denominator !== numerator ? cut - 1n : cut);
}

function isLess(a: Rational, b: Rational): boolean {
  return a.numerator * b.denominator < b.numerator * a.denominator;
}

function wholeOf(x: Rational): bigint {
  if (!isWhole(x)) throw new MathError("whole numbers are needed");
  return x.numerator < 0n ? -x.numerator : x.numerator;
}

function wholeBetween(x: Rational, most: bigint, what: string): bigint {
  if (!isWhole(x) || x.numerator < 0n || x.numerator > most) {
    throw new MathError(`${what} takes whole numbers from 0 to ${most}`);
  }
  return x.numerator;
}

function factorial(n: bigint): bigint {
  let product = 1n;
  for (let i = 2n; i <= n; i += 1n) product *= i;
  return product;
}

function binomial(n: bigint, k: bigint): bigint {
  if (k > n) return 0n;
  let result = 1n;
  for (let i = 1n; i <= k; i += 1n) result = (result * (n - k + i)) / i;
  return result;
}

function commonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : commonDivisor(b, a % b);
}
