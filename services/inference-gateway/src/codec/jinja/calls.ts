// SPDX-License-Identifier: Apache-2.0
import { Template } from "@huggingface/jinja";
import { selected } from "./operators.ts";
import {
  array,
  has,
  integer,
  isObject,
  isTrue,
  Namespace,
  NotCompiled,
  string,
  text,
  toJson,
  type Value,
  type ValueObject,
} from "./values.ts";

type Named = ReadonlyMap<string, Value>;
type Method = (object: never, args: readonly Value[]) => Value;

/** Methods of texts. `strip` and its like are functions, see python-strip.ts. */
const OF_TEXTS: Readonly<Record<string, (own: string, args: readonly Value[]) => Value>> = {
  upper: (own) => own.toUpperCase(),
  lower: (own) => own.toLowerCase(),
  startswith: (own, [start]) => own.startsWith(string(start)),
  endswith: (own, [end]) => own.endsWith(string(end)),
  split: (own, [separator, ...more]) => {
    if (more.length > 0 || string(separator) === "") throw new NotCompiled("such a split");
    return own.split(string(separator));
  },
  replace: (own, [old, fresh, ...more]) => {
    if (more.length > 0 || string(old) === "" || !string(old).isWellFormed())
      throw new NotCompiled("such a replacement");
    return own.replaceAll(string(old), () => string(fresh));
  },
};

const OF_OBJECTS: Readonly<Record<string, (own: ValueObject, args: readonly Value[]) => Value>> = {
  get: (own, [key, otherwise = null]) => (has(own, string(key)) ? own[string(key)] : otherwise),
  items: (own) => Object.entries(own),
  keys: (own) => Object.keys(own),
  values: (own) => Object.values(own),
};

/** `object.name(…)`. */
export function callMethod(object: Value, name: string, args: readonly Value[], named: Named): Value {
  if (named.size > 0) throw new NotCompiled("a method with named arguments");
  if (isObject(object) && has(object, name)) throw new NotCompiled("a call of an object's own");
  const methods = typeof object === "string" ? OF_TEXTS : isObject(object) ? OF_OBJECTS : {};
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  if (method === undefined) throw new NotCompiled(`method ${name}`);
  return (method as Method)(object as never, args);
}

type Filter = (operand: Value, args: readonly Value[], named: Named) => Value;

const lengthOf: Filter = (operand) => {
  if (typeof operand === "string" || Array.isArray(operand)) return operand.length;
  if (isObject(operand)) return Object.keys(operand).length;
  throw new NotCompiled("length of something else");
};

const ofText =
  (change: (value: string) => string): Filter =>
  (operand) =>
    change(string(operand));

/** Those that mean the same with and without parentheses, where the second has no arguments. */
export const FILTERS: Readonly<Record<string, Filter>> = {
  length: lengthOf,
  trim: ofText((value) => value.trim()),
  upper: ofText((value) => value.toUpperCase()),
  lower: ofText((value) => value.toLowerCase()),
  list: (operand) => array(operand),
  first: (operand) => end(operand, 0),
  last: (operand) => end(operand, -1),
  reverse: (operand) => array(operand).toReversed(),
  string: (operand) => text(operand),
  safe: (operand) => operand,
  items: (operand) => callMethod(operand, "items", [], new Map()),
  join: (operand, [separator = ""], named) => {
    if (named.size > 0) throw new NotCompiled("named arguments of join");
    return array(operand).map(text).join(string(separator));
  },
  tojson: (operand, _args, named) => toJson(operand, jsonOptions(named)),
  default: (operand, [otherwise = "", whenFalse = false], named) => {
    const isWide = named.get("boolean") ?? whenFalse;
    return operand === undefined || (isWide === true && !isTrue(operand)) ? otherwise : operand;
  },
  replace: (operand, args, named) => callMethod(string(operand), "replace", args, named),
  selectattr: (operand, args) => selected(operand, args.map(string), true),
  rejectattr: (operand, args) => selected(operand, args.map(string), false),
};

/** Filters that the interpreter knows by another name, or otherwise, when they stand without parentheses. */
export const ONLY_CALLED: ReadonlySet<string> = new Set(["default", "replace", "selectattr", "rejectattr"]);
/** Filters that it knows only without. */
export const NEVER_CALLED: ReadonlySet<string> = new Set([
  ...["length", "trim", "upper", "lower", "list", "first", "last", "reverse", "string", "safe", "items"],
]);

function end(operand: Value, at: number): Value {
  const items = array(operand);
  if (items.length === 0) throw new NotCompiled("the end of an empty list");
  return items.at(at);
}

function jsonOptions(named: Named) {
  const { indent, ensure_ascii: ensureAscii, ...more } = Object.fromEntries(named);
  if (Object.keys(more).length > 0) throw new NotCompiled("such JSON");
  return {
    ...(indent === undefined || indent === null ? {} : { indent: integer(indent) }),
    ensureAscii: ensureAscii === true,
  };
}

/** The interpreter's own words for today's date; it does not export the function. */
const TODAY = new Template("{{ strftime_now(format) }}");

/** What templates find besides their variables. */
export const GLOBALS: Readonly<Record<string, Value>> = {
  ...{ true: true, false: false, none: null, True: true, False: false, None: null },
  raise_exception: () => {
    throw new NotCompiled("the template refuses");
  },
  namespace: (args, named) => {
    if (args.length > 0) throw new NotCompiled("a namespace of a value");
    return new Namespace(named);
  },
  range: (args) => {
    const [start, stop, ...more] = args.map(integer);
    if (start === undefined || more.length > 0) throw new NotCompiled("such a range");
    const [from, to] = stop === undefined ? [0, start] : [start, stop];
    return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  },
  strftime_now: ([format]) => TODAY.render({ format: string(format) }),
};
