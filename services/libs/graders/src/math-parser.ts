// SPDX-License-Identifier: Apache-2.0
import { MathError } from "./math-error.ts";
import { tokenize } from "./math-lexer.ts";
import { CONSTANTS, FUNCTIONS } from "./math-names.ts";
import { parseDecimal, type Rational } from "./rational.ts";
import { END, TokenCursor } from "./token-cursor.ts";

export type BinaryOperator = "+" | "-" | "*" | "/" | "^";

export type Expression =
  | { readonly kind: "number"; readonly value: Rational }
  | { readonly kind: "variable"; readonly name: string }
  | {
      readonly kind: "binary";
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Expression[] };

/** Groups, signs and powers inside each other. */
const MAX_DEPTH = 100;

/** Reads a formula as people and LaTeX write it: `2x`, `\frac12`, `\sqrt[3]{8}`, `1\frac12`, `3!`, `10%`. @throws MathError */
export function parseExpression(text: string): Expression {
  return new Parser(tokenize(text)).whole();
}

class Parser extends TokenCursor {
  #depth = 0;
  /** Inside `|…|` the next bar closes. */
  #bars = 0;

  whole(): Expression {
    const result = this.#sum();
    if (this.peek() !== END) throw this.unexpected();
    return result;
  }

  #sum(): Expression {
    let left = this.#product();
    for (;;) {
      if (this.take("+")) left = binary("+", left, this.#product());
      else if (this.take("-")) left = binary("-", left, this.#product());
      else return left;
    }
  }

  #product(): Expression {
    let left = this.#signed();
    for (;;) {
      if (this.take("*")) left = binary("*", left, this.#signed());
      else if (this.take("/")) left = binary("/", left, this.#signed());
      else if (this.#startsFactor()) left = this.#joined(left);
      else return left;
    }
  }

  /** Two factors side by side: a product, except a whole number before a fraction of whole numbers: `1\frac12` is 3/2. */
  #joined(left: Expression): Expression {
    const before = this.previous;
    const isFraction = this.peek().text === "frac";
    const right = this.#powered();
    const mixed = isFraction && before?.kind === "number" && left.kind === "number" && isProperFraction(right);
    return binary(mixed ? "+" : "*", left, right);
  }

  #signed(): Expression {
    return this.#nested(() => {
      if (this.take("-")) return binary("*", whole(-1), this.#signed());
      if (this.take("+")) return this.#signed();
      return this.#powered();
    });
  }

  #powered(): Expression {
    const base = this.#postfixed();
    if (!this.take("^")) return base;
    return binary("^", base, this.#signed());
  }

  #postfixed(): Expression {
    let operand = this.#atom();
    for (;;) {
      if (this.take("!")) operand = call("factorial", operand);
      else if (this.take("%")) operand = binary("/", operand, whole(100));
      else return operand;
    }
  }

  #atom(): Expression {
    return this.#nested(() => this.#unguardedAtom());
  }

  /** Every recursion passes here: a hostile text must not exhaust the stack. */
  #nested(read: () => Expression): Expression {
    if (++this.#depth > MAX_DEPTH) throw new MathError("nested too deeply");
    const result = read();
    this.#depth -= 1;
    return result;
  }

  #unguardedAtom(): Expression {
    const token = this.next();
    switch (token.kind) {
      case "number":
        return { kind: "number", value: parseDecimal(token.text) };
      case "name":
        return this.#name(token.text);
      case "command":
        return this.#command(token.text);
      case "symbol":
        return this.#enclosed(token.text);
      case "end":
        throw new MathError("the expression is not complete");
    }
  }

  /** A function, a constant, or letters: each is a variable, and side by side they are multiplied. */
  #name(text: string): Expression {
    if (Object.hasOwn(FUNCTIONS, text)) return this.#function(text);
    if (Object.hasOwn(CONSTANTS, text)) return call(CONSTANTS[text] as string);
    const [name = "", second, ...more] = text;
    if (more.length > 0) throw new MathError(`unknown name "${text.slice(0, 40)}"`);
    if (second === undefined) return { kind: "variable", name };
    this.putBack({ kind: "name", text: second }); // A factor of its own: in "yx^2" only x is squared.
    return this.#name(name);
  }

  #command(text: string): Expression {
    if (text === "frac") return binary("/", this.#argument(), this.#argument());
    if (text === "binom") return call("binom", this.#argument(), this.#argument());
    if (text === "sqrt") return this.#root();
    if (Object.hasOwn(FUNCTIONS, text)) return this.#function(text);
    if (Object.hasOwn(CONSTANTS, text)) return call(CONSTANTS[text] as string);
    if (/^(alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|x|y|z)$/.test(text))
      return { kind: "variable", name: text };
    throw new MathError(`unknown command "\\${text.slice(0, 40)}"`);
  }

  #root(): Expression {
    if (!this.take("[")) return call("sqrt", this.#argument());
    const degree = this.#sum();
    this.expect("]");
    return call("root", this.#argument(), degree);
  }

  /** `sin(x)`, `\sin x`, `\sin 2x`, `\sin^2 x`, `\log_2 8`. */
  #function(name: string): Expression {
    const base = name === "log" && this.take("_") ? this.#argument() : undefined;
    const exponent = this.take("^") ? this.#argument() : undefined;
    const args = this.#args(FUNCTIONS[name] as number);
    if (FUNCTIONS[name] !== -1 && args.length !== FUNCTIONS[name]) {
      throw new MathError(`${name} takes ${FUNCTIONS[name]} argument(s), not ${args.length}`);
    }
    const value = call(name, ...args);
    const based = base === undefined ? value : binary("/", call("ln", ...args), call("ln", base));
    return exponent === undefined ? based : binary("^", based, exponent);
  }

  #args(count: number): Expression[] {
    const close = this.take("(") ? ")" : this.take("{") ? "}" : undefined;
    if (close === undefined) return count === 1 ? [this.#bareArgument()] : [];
    const args = [this.#sum()];
    while (this.take(",")) args.push(this.#sum());
    this.expect(close);
    return args;
  }

  #bareArgument(): Expression {
    let argument = this.#powered();
    while (this.#startsFactor()) argument = binary("*", argument, this.#powered());
    return argument;
  }

  /** What a LaTeX command takes: a group, or one character of what follows: `\frac12` is a half. */
  #argument(): Expression {
    const token = this.peek();
    if (token.kind === "number" && token.text.length > 1) {
      this.replaceNext({ kind: "number", text: token.text.slice(1) });
      if (!/^\d/.test(token.text)) throw this.unexpected();
      return { kind: "number", value: parseDecimal(token.text.charAt(0)) };
    }
    return this.#atom();
  }

  #enclosed(open: string): Expression {
    if (open === "√") return call("sqrt", this.#atom());
    if (open === "|") return this.#absolute();
    const close = CLOSE[open];
    if (close === undefined) throw new MathError(`unexpected "${open}"`);
    const bars = this.#bars;
    this.#bars = 0;
    const inside = this.#sum();
    this.#bars = bars;
    this.expect(close);
    return inside;
  }

  #absolute(): Expression {
    this.#bars += 1;
    const inside = this.#sum();
    this.#bars -= 1;
    this.expect("|");
    return call("abs", inside);
  }

  #startsFactor(): boolean {
    const { kind, text } = this.peek();
    if (kind === "name" || kind === "command") return true;
    return kind === "symbol" && (text === "(" || text === "{" || text === "√" || (text === "|" && this.#bars === 0));
  }
}

const CLOSE: Readonly<Record<string, string>> = { "(": ")", "{": "}", "[": "]" };

function whole(value: number): Expression {
  return { kind: "number", value: { numerator: BigInt(value), denominator: 1n } };
}

function binary(operator: BinaryOperator, left: Expression, right: Expression): Expression {
  return { kind: "binary", operator, left, right };
}

function call(name: string, ...args: Expression[]): Expression {
  return { kind: "call", name, args };
}

function isProperFraction(expression: Expression): boolean {
  if (expression.kind !== "binary" || expression.operator !== "/") return false;
  const { left, right } = expression;
  return left.kind === "number" && right.kind === "number" && left.value.numerator < right.value.numerator;
}
