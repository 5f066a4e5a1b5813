// SPDX-License-Identifier: Apache-2.0
import { evaluateExpression, isWhole, MathError, type Rational, toNumber, type Value } from "@whetstone/graders";
import { defineTool, type Tool, ToolError } from "./tool.ts";

const PARAMETERS = {
  type: "object",
  properties: { expression: { type: "string", description: 'e.g. "(3 + 4) * 5", "sqrt(2)", "10% * 80"' } },
  required: ["expression"],
  additionalProperties: false,
};

/** Evaluates arithmetic, bounded in length, nesting and size; nothing in it can hang or run code. */
export const calculator: Tool = defineTool<{ readonly expression: string }>({
  name: "calculator",
  description: "Evaluates an arithmetic expression: + - * / ^ !, %, brackets, sqrt, log, sin, pi and the like.",
  parameters: PARAMETERS,
  run: ({ expression }) => {
    try {
      return formatValue(evaluateExpression(expression));
    } catch (error) {
      if (error instanceof MathError) throw new ToolError(`expression: ${error.message}.`, { cause: error });
      throw error;
    }
  },
});

/** Whole numbers and short decimals exactly, everything else to 12 digits. */
export function formatValue(value: Value): string {
  if (typeof value === "number") return rounded(value);
  if (isWhole(value)) return value.numerator.toString();
  return exactDecimal(value) ?? rounded(toNumber(value));
}

const MAX_DECIMALS = 12;

function exactDecimal({ numerator, denominator }: Rational): string | undefined {
  const scaled = numerator * 10n ** BigInt(MAX_DECIMALS);
  if (scaled % denominator !== 0n) return undefined;
  const sign = numerator < 0n ? "-" : "";
  const digits = (scaled / denominator)
    .toString()
    .replace("-", "")
    .padStart(MAX_DECIMALS + 1, "0");
  return `${sign}${digits.slice(0, -MAX_DECIMALS)}.${digits.slice(-MAX_DECIMALS).replace(/0+$/u, "")}`;
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(MAX_DECIMALS)));
}
