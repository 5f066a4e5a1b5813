// SPDX-License-Identifier: Apache-2.0
import { callMethod, FILTERS, NEVER_CALLED, ONLY_CALLED } from "./calls.ts";
import { BINARY, member, slice, TESTS } from "./operators.ts";
import { integer, isTrue, NotCompiled, type Scope, type Value } from "./values.ts";

/** A node of the parsed template. */
export interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

export type Expression = (scope: Scope) => Value;

const CONSTANTS = new Set(["IntegerLiteral", "StringLiteral"]);

/** @throws NotCompiled */
export function expression(node: Node): Expression {
  const { value } = node;
  if (CONSTANTS.has(node.type)) return () => value as Value;
  const compile = COMPILERS[node.type];
  if (compile === undefined) throw new NotCompiled(node.type);
  return compile(node);
}

const child = (node: Node, name: string): Node => node[name] as Node;
const children = (node: Node, name: string): Node[] => node[name] as Node[];
const optional = (node: unknown): Expression =>
  node === undefined || node === null ? () => undefined : expression(node as Node);

const COMPILERS: Readonly<Record<string, (node: Node) => Expression>> = {
  Identifier: ({ value }) => {
    const name = value as string;
    return (scope) => scope.get(name);
  },
  ArrayLiteral: (node) => {
    const items = children(node, "value").map(expression);
    return (scope) => items.map((item) => item(scope));
  },
  ObjectLiteral: objectOf,
  MemberExpression: memberOf,
  CallExpression: callOf,
  FilterExpression: filterOf,
  BinaryExpression: binaryOf,
  UnaryExpression: unaryOf,
  TestExpression: testOf,
  SelectExpression: (node) => {
    const [isWanted, value] = [expression(child(node, "test")), expression(child(node, "lhs"))];
    return (scope) => (isTrue(isWanted(scope)) ? value(scope) : undefined);
  },
  Ternary: (node) => {
    const condition = expression(child(node, "condition"));
    const [yes, no] = [optional(node["trueExpr"]), optional(node["falseExpr"])];
    return (scope) => (isTrue(condition(scope)) ? yes(scope) : no(scope));
  },
};

function objectOf(node: Node): Expression {
  const entries = [...(node["value"] as ReadonlyMap<Node, Node>)].map(([key, value]) => {
    // JavaScript would put keys that look like numbers first.
    if (key.type !== "StringLiteral" || /^\d/.test(key["value"] as string)) throw new NotCompiled("such a key");
    return [key["value"] as string, expression(value)] as const;
  });
  return (scope) => {
    const object: Record<string, Value> = {};
    for (const [key, value] of entries) object[key] = value(scope);
    return object;
  };
}

function memberOf(node: Node): Expression {
  const object = expression(child(node, "object"));
  const property = child(node, "property");
  if (node["computed"] !== true) {
    const name = property["value"] as Value;
    return (scope) => member(object(scope), name);
  }
  if (property.type === "SliceExpression") {
    const [start, stop, step] = [optional(property["start"]), optional(property["stop"]), optional(property["step"])];
    return (scope) => slice(object(scope), start(scope), stop(scope), step(scope));
  }
  const key = expression(property);
  return (scope) => member(object(scope), key(scope));
}

interface Arguments {
  readonly args: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

const NONE: ReadonlyMap<string, Value> = new Map();

function argumentsOf(nodes: readonly Node[]): (scope: Scope) => Arguments {
  if (nodes.some(({ type }) => type.endsWith("SpreadExpression"))) throw new NotCompiled("spread arguments");
  const isNamed = ({ type }: Node): boolean => type === "KeywordArgumentExpression";
  const args = nodes.filter((node) => !isNamed(node)).map(expression);
  const named = nodes
    .filter(isNamed)
    .map((node) => [child(node, "key")["value"] as string, expression(child(node, "value"))] as const);
  return (scope) => ({
    args: args.map((one) => one(scope)),
    named: named.length === 0 ? NONE : new Map(named.map(([name, one]) => [name, one(scope)])),
  });
}

function callOf(node: Node): Expression {
  const callee = child(node, "callee");
  const given = argumentsOf(children(node, "args"));
  if (callee.type === "MemberExpression" && callee["computed"] !== true) {
    const object = expression(child(callee, "object"));
    const name = child(callee, "property")["value"] as string;
    return (scope) => {
      const { args, named } = given(scope);
      return callMethod(object(scope), name, args, named);
    };
  }
  const called = expression(callee);
  return (scope) => {
    const { args, named } = given(scope);
    const target = called(scope);
    if (typeof target !== "function") throw new NotCompiled("a call of something else");
    return target(args, named, scope);
  };
}

function filterOf(node: Node): Expression {
  const operand = expression(child(node, "operand"));
  const filter = child(node, "filter");
  const isCalled = filter.type === "CallExpression";
  const name = (isCalled ? child(filter, "callee") : filter)["value"] as string;
  const apply = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
  if (apply === undefined || (isCalled ? NEVER_CALLED : ONLY_CALLED).has(name)) throw new NotCompiled(`filter ${name}`);
  if (!isCalled) return (scope) => apply(operand(scope), [], NONE);
  const nodes = children(filter, "args");
  if (name.endsWith("attr") && nodes.some(({ type }) => type !== "StringLiteral"))
    throw new NotCompiled("such a filter");
  const given = argumentsOf(nodes);
  return (scope) => {
    const { args, named } = given(scope);
    return apply(operand(scope), args, named);
  };
}

function operatorOf(node: Node): string {
  return (node["operator"] as { value: string }).value;
}

function binaryOf(node: Node): Expression {
  const operator = operatorOf(node);
  const left = expression(child(node, "left"));
  const right = rightOf(child(node, "right"), operator);
  if (operator === "and" || operator === "or") {
    const goesOn = operator === "and";
    return (scope) => {
      const first = left(scope);
      return isTrue(first) === goesOn ? right(scope) : first;
    };
  }
  const compute = Object.hasOwn(BINARY, operator) ? BINARY[operator] : undefined;
  if (compute === undefined) throw new NotCompiled(`operator ${operator}`);
  return (scope) => compute(left(scope), right(scope));
}

/** A tuple is something else than a list, but not where it is looked into. */
function rightOf(node: Node, operator: string): Expression {
  const isLookedInto = operator === "in" || operator === "not in";
  return expression(isLookedInto && node.type === "TupleLiteral" ? { ...node, type: "ArrayLiteral" } : node);
}

function unaryOf(node: Node): Expression {
  const operator = operatorOf(node);
  const argument = expression(child(node, "argument"));
  if (operator === "not") return (scope) => !isTrue(argument(scope));
  const sign = operator === "-" ? -1 : 1;
  return (scope) => sign * integer(argument(scope));
}

function testOf(node: Node): Expression {
  const operand = expression(child(node, "operand"));
  const name = child(node, "test")["value"] as string;
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (test === undefined) throw new NotCompiled(`test ${name}`);
  const isNegated = node["negate"] === true;
  return (scope) => test(operand(scope)) !== isNegated;
}
