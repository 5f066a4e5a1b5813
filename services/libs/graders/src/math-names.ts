// SPDX-License-Identifier: Apache-2.0

/** Functions by the number of their arguments; -1: one or more. Also LaTeX commands of the same name. */
export const FUNCTIONS: Readonly<Record<string, number>> = {
  sqrt: 1,
  cbrt: 1,
  abs: 1,
  exp: 1,
  ln: 1,
  log: 1,
  sin: 1,
  cos: 1,
  tan: 1,
  cot: 1,
  sec: 1,
  csc: 1,
  arcsin: 1,
  arccos: 1,
  arctan: 1,
  asin: 1,
  acos: 1,
  atan: 1,
  floor: 1,
  ceil: 1,
  round: 1,
  factorial: 1,
  min: -1,
  max: -1,
  gcd: -1,
  lcm: -1,
  mod: 2,
  root: 2,
  binom: 2,
  pow: 2,
};

export const CONSTANTS: Readonly<Record<string, string>> = { pi: "pi", π: "pi", e: "e" };
