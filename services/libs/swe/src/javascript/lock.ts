// SPDX-License-Identifier: Apache-2.0
// Before the library is loaded: the functions that tests compare and report by cannot be changed any more. Object.prototype and
// errors stay as they are: tests of libraries change the former for a moment, and both hold names that programs give their own
// objects. What is added to a built-in object changes nothing of what is there.

const TYPED = Object.getPrototypeOf(Uint8Array) as object;

const BUILT_INS: readonly object[] = [
  ...[Object, Function, Array, String, Number, Boolean, BigInt, Symbol, RegExp, Date, Promise, Proxy],
  ...[Map, Set, WeakMap, WeakSet, ArrayBuffer, DataView, TYPED, Uint8Array, Buffer, JSON, Math, Reflect],
];
/** What programs give objects of their own that inherit from these. */
const GIVEN = new Set<PropertyKey>(["constructor", "join", "toISOString", "toString", "valueOf"]);
const { defineProperty, getOwnPropertyDescriptor } = Object;
const { ownKeys } = Reflect;

/**
 * @param modules  what tests are run by; their exports are locked with what is in them
 * @param nodes  modules of Node's
 */
export function lockAll(modules: readonly unknown[], nodes: readonly object[]): void {
  for (const builtIn of BUILT_INS) {
    const { prototype } = builtIn as { prototype?: object };
    if (prototype !== undefined && builtIn !== Object) lock(prototype, (key) => GIVEN.has(key));
    lock(builtIn, () => false);
  }
  for (const node of nodes) lock(node, () => false);
  const seen = new Set<unknown>([Object.prototype, Error.prototype, globalThis, process]);
  for (const module of modules) lockDeep(module, seen, 2);
}

function lockDeep(value: unknown, seen: Set<unknown>, depth: number): void {
  if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value)) return;
  seen.add(value);
  const { prototype } = value as { prototype?: unknown };
  if (typeof prototype === "object" && prototype !== null && !seen.has(prototype)) {
    seen.add(prototype);
    lock(prototype, () => true);
  }
  if (depth > 0)
    for (const key of ownKeys(value)) lockDeep(getOwnPropertyDescriptor(value, key)?.value, seen, depth - 1);
  lock(value, () => false);
}

/** @param isGiven  what inherits from it may have a member of its own with this name, which a read-only one would forbid */
function lock(target: object, isGiven: (key: PropertyKey) => boolean): void {
  for (const key of ownKeys(target)) {
    const { configurable, enumerable = false, ...found } = getOwnPropertyDescriptor(target, key) ?? {};
    const value: unknown = found.value;
    if (typeof value !== "function" || configurable !== true) continue;
    const locked = isGiven(key) ? overridable(target, key, value) : { value, writable: false };
    defineProperty(target, key, { ...locked, configurable: false, enumerable });
  }
}

function overridable(owner: object, key: PropertyKey, value: unknown): PropertyDescriptor {
  // Programs that look built-in functions up find the function by this name, and not what gets it (a convention of get-intrinsic).
  const get = Object.assign(() => value, { originalValue: value });
  return {
    get,
    set(this: object, own: unknown) {
      if (this === owner) throw new TypeError(`${String(key)} cannot be changed`);
      defineProperty(this, key, { value: own, writable: true, enumerable: true, configurable: true });
    },
  };
}
