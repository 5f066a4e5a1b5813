// SPDX-License-Identifier: Apache-2.0
import type { KubeObject, Stored } from "./objects.ts";

/** The objects of one kind in memory, findable by key and by one index. */
export class ObjectCache<T extends KubeObject> {
  readonly #objects = new Map<string, Stored<T>>();
  readonly #groups = new Map<string, Map<string, Stored<T>>>();
  readonly #indexBy: ((object: Stored<T>) => string | undefined) | undefined;

  constructor(indexBy?: (object: Stored<T>) => string | undefined) {
    this.#indexBy = indexBy;
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: string): Stored<T> | undefined {
    return this.#objects.get(key);
  }

  keys(): string[] {
    return [...this.#objects.keys()];
  }

  all(): Stored<T>[] {
    return [...this.#objects.values()];
  }

  /** Those whose index value is this. */
  by(value: string): Stored<T>[] {
    return [...(this.#groups.get(value)?.values() ?? [])];
  }

  /** @returns whether anything changed. */
  set(key: string, object: Stored<T>): boolean {
    const before = this.#objects.get(key);
    if (
      before?.metadata.resourceVersion === object.metadata.resourceVersion &&
      before.metadata.uid === object.metadata.uid
    )
      return false;
    if (before) this.#leaveGroup(key, before);
    this.#objects.set(key, object);
    const group = this.#indexBy?.(object);
    if (group === undefined) return true;
    const members = this.#groups.get(group);
    if (members) members.set(key, object);
    else this.#groups.set(group, new Map([[key, object]]));
    return true;
  }

  delete(key: string): Stored<T> | undefined {
    const before = this.#objects.get(key);
    if (!before) return undefined;
    this.#objects.delete(key);
    this.#leaveGroup(key, before);
    return before;
  }

  #leaveGroup(key: string, object: Stored<T>): void {
    const group = this.#indexBy?.(object);
    if (group === undefined) return;
    const members = this.#groups.get(group);
    members?.delete(key);
    if (members?.size === 0) this.#groups.delete(group);
  }
}
