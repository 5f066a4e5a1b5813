// SPDX-License-Identifier: Apache-2.0
import { ConfigError, WhetstoneError } from "@whetstone/core";

/** A registry is a value: whoever needs one is given it. */
export interface Registry<T> {
  readonly kinds: readonly T[];
  /** @throws ConfigError TASK_INVALID naming the known kinds. */
  get(kind: string): T;
}

export function createRegistry<T extends { readonly kind: string }>(what: string, entries: readonly T[]): Registry<T> {
  const byKind = new Map(entries.map((entry) => [entry.kind, entry]));
  if (byKind.size !== entries.length) throw new WhetstoneError("ALREADY_EXISTS", `two ${what}s have the same kind`);
  return {
    kinds: entries,
    get(kind) {
      const entry = byKind.get(kind);
      if (entry !== undefined) return entry;
      const reason = `unknown ${what} "${kind}"; known: ${[...byKind.keys()].join(", ")}`;
      throw new ConfigError([{ path: "kind", reason }], { code: "TASK_INVALID" });
    },
  };
}
