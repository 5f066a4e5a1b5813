// SPDX-License-Identifier: Apache-2.0
import { array, has, integer, isObject, isTrue, Namespace, NotCompiled, string, text, type Value } from "./values.ts";

/** Of both sides' values; `and` and `or` are not here, as they may not need the right one. */
export const BINARY: Readonly<Record<string, (left: Value, right: Value) => Value>> = {
  "==": isEqual,
  "!=": (left, right) => !isEqual(left, right),
  in: isIn,
  "not in": (left, right) => !isIn(left, right),
  "~": (left, right) => text(left) + text(right),
  "+": plus,
  "-": (left, right) => integer(left) - integer(right),
  "*": (left, right) => integer(left) * integer(right),
  "//": (left, right) => Math.floor(integer(left) / integer(right)),
  "%": (left, right) => integer(left) % integer(right),
  "<": (left, right) => integer(left) < integer(right),
  ">": (left, right) => integer(left) > integer(right),
  "<=": (left, right) => integer(left) <= integer(right),
  ">=": (left, right) => integer(left) >= integer(right),
};

/** The interpreter compares with JavaScript's `==`, so that nothing and none are equal. */
function isEqual(left: Value, right: Value): boolean {
  if (typeof left === typeof right && typeof left !== "object") return left === right;
  if (left === null || left === undefined) return right === null || right === undefined;
  if (right === null || right === undefined) return false;
  throw new NotCompiled("values of two types compared");
}

function isIn(left: Value, right: Value): boolean {
  if (right === undefined) return false;
  if (left === undefined || left === null) throw new NotCompiled("nothing in something");
  if (Array.isArray(right)) {
    if (Array.isArray(left)) throw new NotCompiled("a list in a list");
    return right.includes(left);
  }
  if (typeof right === "string") return right.includes(string(left));
  if (isObject(right)) return has(right, string(left));
  throw new NotCompiled("in something else");
}

function plus(left: Value, right: Value): Value {
  if (typeof left === "string" || typeof right === "string") return text(left) + text(right);
  if (Array.isArray(left)) return left.concat(array(right));
  return integer(left) + integer(right);
}

type Test = (value: Value) => boolean;

export const TESTS: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === "boolean",
  callable: (value) => typeof value === "function",
  odd: (value) => integer(value) % 2 !== 0,
  even: (value) => integer(value) % 2 === 0,
  false: (value) => value === false,
  true: (value) => value === true,
  none: (value) => value === null,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  iterable: (value) => Array.isArray(value) || typeof value === "string",
  mapping: isObject,
  sequence: (value) => Array.isArray(value) || typeof value === "string" || isObject(value),
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
};

/** `selectattr` with the names of an attribute and of a test, and what that compares with. */
export function selected(items: Value, [attribute, test, wanted]: readonly string[], isWanted: boolean): Value[] {
  const passes = attributeTest(test, wanted);
  return array(items).filter((item) => {
    if (!isObject(item) || attribute === undefined) throw new NotCompiled("attributes of something else");
    return (has(item, attribute) && passes(item[attribute])) === isWanted;
  });
}

function attributeTest(name: string | undefined, wanted: string | undefined): Test {
  if (name === undefined) return isTrue;
  if (name === "equalto" || name === "eq") return (value) => isEqual(value, wanted);
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (test === undefined) throw new NotCompiled(`test ${name}`);
  return test;
}

/** `object.property`, or `object[property]`. */
export function member(object: Value, property: Value): Value {
  if (isObject(object)) {
    const key = string(property);
    if (has(object, key)) return object[key];
    if (METHODS_OF_OBJECTS.has(key)) throw new NotCompiled("a method that is not called");
    return undefined;
  }
  if (object instanceof Namespace) return object.values.get(string(property));
  if (typeof object === "string" || Array.isArray(object)) return memberOfSequence(object, property);
  string(property);
  return undefined;
}

function memberOfSequence(sequence: string | Value[], property: Value): Value {
  if (typeof property === "number") return sequence.at(integer(property));
  const name = string(property);
  if (name === "length") return sequence.length;
  if (typeof sequence === "string" && METHODS_OF_TEXTS.has(name)) throw new NotCompiled("a method that is not called");
  return undefined;
}

const METHODS_OF_OBJECTS = new Set(["get", "items", "keys", "values", "dictsort"]);
const METHODS_OF_TEXTS = new Set([
  ...[
    "upper",
    "lower",
    "strip",
    "title",
    "capitalize",
    "rstrip",
    "lstrip",
    "startswith",
    "endswith",
    "split",
    "replace",
  ],
]);

/** Python's `sequence[start:stop:step]`. */
export function slice(sequence: Value, start: Value, stop: Value, step: Value): Value {
  if (typeof sequence === "string") return sliced([...sequence], start, stop, step).join("");
  return sliced(array(sequence), start, stop, step);
}

function sliced<T>(items: readonly T[], from: Value, to: Value, by: Value): T[] {
  const step = by === undefined ? 1 : integer(by);
  if (step === 1) return items.slice(...[from, to].map((end) => (end === undefined ? undefined : integer(end))));
  if (step !== -1 || from !== undefined || to !== undefined) throw new NotCompiled("such a slice");
  return items.toReversed();
}
