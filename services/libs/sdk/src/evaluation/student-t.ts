// SPDX-License-Identifier: Apache-2.0

/** Quantile of the normal distribution at 0.975. */
export const Z95 = 1.959963984540054;

/**
 * Student's t quantile at 0.975, for 95 % intervals. The first two degrees of freedom in closed form, the others by the expansion of
 * Abramowitz and Stegun 26.7.5, which is within 0.5 % from three degrees on.
 */
export function t95(degreesOfFreedom: number): number {
  if (!(degreesOfFreedom >= 1)) return Infinity;
  if (degreesOfFreedom === 1) return Math.tan(0.475 * Math.PI);
  if (degreesOfFreedom === 2) return 0.95 / Math.sqrt(2 * 0.975 * 0.025);
  const [x, n] = [Z95, degreesOfFreedom];
  const terms = [
    (x ** 3 + x) / 4,
    (5 * x ** 5 + 16 * x ** 3 + 3 * x) / 96,
    (3 * x ** 7 + 19 * x ** 5 + 17 * x ** 3 - 15 * x) / 384,
    (79 * x ** 9 + 776 * x ** 7 + 1482 * x ** 5 - 1920 * x ** 3 - 945 * x) / 92160,
  ];
  return terms.reduce((sum, term, index) => sum + term / n ** (index + 1), x);
}
