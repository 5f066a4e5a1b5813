// SPDX-License-Identifier: Apache-2.0
import { MathError, TooLargeError } from "./math-error.ts";

/** An exact fraction in lowest terms, denominator above 0. */
export interface Rational {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Exact where arithmetic keeps it exact; otherwise a double. */
export type Value = Rational | number;

/** Larger numbers are refused: what a model writes must not decide how much memory its grading takes. */
const MAX_BITS = 1024;

export function rational(numerator: bigint, denominator = 1n): Rational {
  if (denominator === 0n) throw new MathError("division by zero");
  const sign = denominator < 0n ? -1n : 1n;
  const common = greatestCommonDivisor(numerator, denominator);
  return bounded({ numerator: (sign * numerator) / common, denominator: (sign * denominator) / common });
}

/** @param text  "12", "0.5", ".5", "1.5e-3"; no sign. */
export function parseDecimal(text: string): Rational {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const shift = Number(exponent) - fraction.length;
  const scale = powerOfTen(Math.abs(shift));
  const digits = BigInt(`${whole}${fraction}` || "0");
  return shift >= 0 ? rational(digits * scale) : rational(digits, scale);
}

function powerOfTen(exponent: number): bigint {
  if (!(exponent <= MAX_BITS / 3)) throw new TooLargeError();
  return 10n ** BigInt(exponent);
}

export function add(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

export function multiply(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.numerator, a.denominator * b.denominator);
}

export function divide(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator, a.denominator * b.numerator);
}

export function negate({ numerator, denominator }: Rational): Rational {
  return { numerator: -numerator, denominator };
}

/** a^exponent, or undefined where the result is too large to be held exactly. @throws MathError for 0 to a negative power. */
export function power(a: Rational, exponent: bigint): Rational | undefined {
  const size = exponent < 0n ? -exponent : exponent;
  if (size > BigInt(MAX_BITS)) return trivialPower(a, exponent);
  if (BigInt(bits(a)) * size > BigInt(MAX_BITS)) return trivialPower(a, exponent);
  const up = { numerator: a.numerator ** size, denominator: a.denominator ** size };
  return exponent < 0n ? rational(up.denominator, up.numerator) : up;
}

/** 0, 1 and -1 have every power. */
function trivialPower({ numerator, denominator }: Rational, exponent: bigint): Rational | undefined {
  if (denominator !== 1n || numerator * numerator > 1n) return undefined;
  if (numerator === 0n && exponent < 0n) throw new MathError("division by zero");
  return rational(exponent % 2n === 0n ? numerator * numerator : numerator);
}

/** The exact square root, or undefined. */
export function squareRoot({ numerator, denominator }: Rational): Rational | undefined {
  const top = wholeRoot(numerator);
  const bottom = wholeRoot(denominator);
  return top === undefined || bottom === undefined ? undefined : rational(top, bottom);
}

function wholeRoot(n: bigint): bigint | undefined {
  if (n < 0n) return undefined;
  if (n < 2n) return n;
  let root = 1n << BigInt((n.toString(2).length + 1) >> 1);
  for (;;) {
    const next = (root + n / root) >> 1n; // Newton's, from above: falls until it is the floor of the root.
    if (next >= root) break;
    root = next;
  }
  return root * root === n ? root : undefined;
}

export function isWhole({ denominator }: Rational): boolean {
  return denominator === 1n;
}

export function equal(a: Rational, b: Rational): boolean {
  return a.numerator === b.numerator && a.denominator === b.denominator;
}

/** The nearest double, also where numerator and denominator alone would overflow. */
export function toNumber({ numerator, denominator }: Rational): number {
  const excess = BigInt(Math.max(0, bits({ numerator, denominator }) - 1000));
  const bottom = Number(denominator >> excess);
  return bottom === 0 ? Number.POSITIVE_INFINITY : Number(numerator >> excess) / bottom;
}

function bounded(value: Rational): Rational {
  if (bits(value) > MAX_BITS) throw new TooLargeError();
  return value;
}

function bits({ numerator, denominator }: Rational): number {
  const size = numerator < 0n ? -numerator : numerator;
  return Math.max(size.toString(16).length, denominator.toString(16).length) * 4;
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}
