// SPDX-License-Identifier: Apache-2.0
// Turns a parsed chat template into functions. The interpreter of @huggingface/jinja makes objects of every value and looks
// at every node each time: 20 µs a message, which at every turn of a long episode is paid for all messages before it.
import { GLOBALS } from "./calls.ts";
import { type Expression, expression, type Node } from "./expressions.ts";
import { array, isObject, isTrue, Namespace, NotCompiled, printed, Scope, type Value } from "./values.ts";

type Statement = (scope: Scope) => string;

/** Prints with these variables. @throws NotCompiled where the interpreter has to */
export type Compiled = (variables: Readonly<Record<string, unknown>>) => string;

class Leave extends Error {}
const BREAK = new Leave("break");
const CONTINUE = new Leave("continue");

/** @param program  as the library parses it. @returns undefined when it has forms that only the interpreter knows */
export function compiled(program: unknown): Compiled | undefined {
  try {
    const body = blockOf((program as Node)["body"] as Node[]);
    return (variables) => body(scopeOf(variables));
  } catch (error) {
    if (error instanceof NotCompiled) return undefined;
    throw error;
  }
}

function scopeOf(variables: Readonly<Record<string, unknown>>): Scope {
  const scope = new Scope();
  for (const [name, value] of Object.entries(GLOBALS)) scope.set(name, value);
  for (const [name, value] of Object.entries(variables)) {
    if (Object.hasOwn(GLOBALS, name)) throw new NotCompiled("a variable with the name of a global one");
    scope.set(
      name,
      typeof value === "function" ? plainFunction(value as (...args: Value[]) => Value) : (value as Value),
    );
  }
  return scope;
}

/** A function that we gave: of texts. */
function plainFunction(call: (...args: Value[]) => Value): Value {
  return (args, named) => {
    const isPlain = args.every((arg) => typeof arg === "string" || arg === null);
    if (!isPlain || named.size > 0) throw new NotCompiled("a function of something else");
    return call(...args);
  };
}

function blockOf(nodes: readonly Node[]): Statement {
  const statements = nodes.filter(({ type }) => type !== "Comment").map(statementOf);
  return (scope) => {
    let text = "";
    for (const statement of statements) text += statement(scope);
    return text;
  };
}

function statementOf(node: Node): Statement {
  const compile = Object.hasOwn(STATEMENTS, node.type) ? STATEMENTS[node.type] : undefined;
  if (compile !== undefined) return compile(node);
  const value = expression(node);
  return (scope) => printed(value(scope));
}

const STATEMENTS: Readonly<Record<string, (node: Node) => Statement>> = {
  If: (node) => {
    const test = expression(node["test"] as Node);
    const [yes, no] = [blockOf(node["body"] as Node[]), blockOf(node["alternate"] as Node[])];
    return (scope) => (isTrue(test(scope)) ? yes(scope) : no(scope));
  },
  For: forOf,
  Set: setOf,
  Macro: macroOf,
  Break: () => () => {
    throw BREAK;
  },
  Continue: () => () => {
    throw CONTINUE;
  },
};

function setOf(node: Node): Statement {
  const value = node["value"] ? expression(node["value"] as Node) : blockOf(node["body"] as Node[]);
  const target = node["assignee"] as Node;
  if (target.type === "Identifier") {
    const name = target["value"] as string;
    return (scope) => {
      scope.set(name, value(scope));
      return "";
    };
  }
  const property = target["property"] as Node | undefined;
  if (target.type !== "MemberExpression" || property?.type !== "Identifier")
    throw new NotCompiled("such an assignment");
  const object = expression(target["object"] as Node);
  const name = property["value"] as string;
  return (scope) => {
    const fresh = value(scope);
    const space = object(scope);
    if (!(space instanceof Namespace)) throw new NotCompiled("an assignment to something else");
    space.values.set(name, fresh);
    return "";
  };
}

function forOf(node: Node): Statement {
  const iterable = node["iterable"] as Node;
  const isFiltered = iterable.type === "SelectExpression";
  const all = expression(isFiltered ? (iterable["lhs"] as Node) : iterable);
  const isWanted = isFiltered ? expression(iterable["test"] as Node) : undefined;
  const assign = assignerOf(node["loopvar"] as Node);
  const body = blockOf(node["body"] as Node[]);
  const otherwise = blockOf(node["defaultBlock"] as Node[]);
  return (outer) => {
    const scope = new Scope(outer);
    const items = wantedOf(itemsOf(all(scope)), isWanted, assign, scope);
    let text = "";
    let isDone = false;
    for (const [at, item] of items.entries()) {
      scope.set("loop", loopAt(items, at));
      assign(scope, item);
      try {
        text += body(scope);
      } catch (error) {
        if (error === CONTINUE) continue;
        if (error === BREAK) break;
        throw error;
      }
      isDone = true;
    }
    return isDone ? text : text + otherwise(scope);
  };
}

function itemsOf(value: Value): Value[] {
  return isObject(value) ? Object.keys(value) : array(value);
}

function wantedOf(
  items: Value[],
  isWanted: Expression | undefined,
  assign: ReturnType<typeof assignerOf>,
  scope: Scope,
): Value[] {
  if (isWanted === undefined) return items;
  return items.filter((item) => {
    const own = new Scope(scope);
    assign(own, item);
    return isTrue(isWanted(own));
  });
}

/** Written out: a loop over all messages makes one for each. */
function loopAt(items: readonly Value[], at: number): Value {
  const { length } = items;
  return {
    index: at + 1,
    index0: at,
    revindex: length - at,
    revindex0: length - at - 1,
    length,
    first: at === 0,
    last: at === length - 1,
    previtem: items[at - 1],
    nextitem: items[at + 1],
  };
}

function assignerOf(target: Node): (scope: Scope, item: Value) => void {
  if (target.type === "Identifier") {
    const name = target["value"] as string;
    return (scope, item) => scope.set(name, item);
  }
  const names = (target["value"] as Node[]).map(({ type, value }) => {
    if (type !== "Identifier") throw new NotCompiled("such a loop");
    return value as string;
  });
  return (scope, item) => {
    const values = array(item);
    if (values.length !== names.length) throw new NotCompiled("another number of values");
    for (const [i, name] of names.entries()) scope.set(name, values[i]);
  };
}

const SPECIAL = /"(?:varargs|kwargs|caller)"/;

function macroOf(node: Node): Statement {
  if (SPECIAL.test(JSON.stringify(node))) throw new NotCompiled("a macro with further arguments");
  const parameters = (node["args"] as Node[]).map((parameter) =>
    parameter.type === "Identifier"
      ? { name: parameter["value"] as string, otherwise: undefined }
      : { name: (parameter["key"] as Node)["value"] as string, otherwise: expression(parameter["value"] as Node) },
  );
  const names = new Set(parameters.map(({ name }) => name));
  const body = blockOf(node["body"] as Node[]);
  const macro: Value = (args, named, caller) => {
    const isTwice = parameters.some(({ name }, i) => i < args.length && named.has(name));
    if (isTwice || args.length > parameters.length || [...named.keys()].some((name) => !names.has(name)))
      throw new NotCompiled("other arguments than the macro has");
    const scope = new Scope(caller);
    const isGiven = ({ name }: { name: string }, i: number): boolean => i < args.length || named.has(name);
    for (const [i, { name }] of parameters.entries()) scope.set(name, i < args.length ? args[i] : named.get(name));
    for (const [i, parameter] of parameters.entries())
      if (!isGiven(parameter, i) && parameter.otherwise) scope.set(parameter.name, parameter.otherwise(scope));
    return body(scope);
  };
  const name = (node["name"] as Node)["value"] as string;
  return (scope) => {
    scope.set(name, macro);
    return "";
  };
}
