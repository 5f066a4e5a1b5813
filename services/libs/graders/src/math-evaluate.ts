// SPDX-License-Identifier: Apache-2.0
import { MathError, TooLargeError } from "./math-error.ts";
import { applyFunction } from "./math-functions.ts";
import { type BinaryOperator, type Expression, parseExpression } from "./math-parser.ts";
import { add, divide, isWhole, multiply, negate, power, type Rational, toNumber, type Value } from "./rational.ts";

export type Variables = ReadonlyMap<string, Rational>;

const NONE: Variables = new Map();

/** The value of a formula without variables. Bounded in length, nesting and size: never hangs. @throws MathError */
export function evaluateExpression(text: string): Value {
  return evaluate(parseExpression(text), NONE);
}

export function evaluate(expression: Expression, variables: Variables): Value {
  switch (expression.kind) {
    case "number":
      return expression.value;
    case "variable":
      return valueOf(expression.name, variables);
    case "binary": {
      const left = evaluate(expression.left, variables);
      return combine(expression.operator, left, evaluate(expression.right, variables));
    }
    case "call":
      return finite(
        applyFunction(
          expression.name,
          expression.args.map((argument) => evaluate(argument, variables)),
        ),
      );
  }
}

function valueOf(name: string, variables: Variables): Rational {
  const value = variables.get(name);
  if (value === undefined) throw new MathError(`unknown name "${name}"`);
  return value;
}

function combine(operator: BinaryOperator, left: Value, right: Value): Value {
  if (typeof left !== "number" && typeof right !== "number") {
    const exact = exactly(operator, left, right);
    if (exact !== undefined) return exact;
  }
  return finite(approximately(operator, asNumber(left), asNumber(right)));
}

/** Undefined where the result is irrational or too large. */
function exactly(operator: BinaryOperator, left: Rational, right: Rational): Rational | undefined {
  try {
    switch (operator) {
      case "+":
        return add(left, right);
      case "-":
        return add(left, negate(right));
      case "*":
        return multiply(left, right);
      case "/":
        return divide(left, right);
      case "^":
        return isWhole(right) ? power(left, right.numerator) : undefined;
    }
  } catch (error) {
    if (error instanceof TooLargeError) return undefined;
    throw error;
  }
}

function approximately(operator: BinaryOperator, left: number, right: number): number {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "^":
      return left ** right;
  }
}

export function asNumber(value: Value): number {
  return typeof value === "number" ? value : toNumber(value);
}

function finite(value: Value): Value {
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  throw new MathError(Number.isNaN(value) ? "undefined result" : "number too large");
}

/** Names that a formula uses. */
export function variablesOf(expression: Expression, found = new Set<string>()): Set<string> {
  if (expression.kind === "variable") found.add(expression.name);
  if (expression.kind === "call") for (const argument of expression.args) variablesOf(argument, found);
  if (expression.kind === "binary") {
    variablesOf(expression.left, found);
    variablesOf(expression.right, found);
  }
  return found;
}
