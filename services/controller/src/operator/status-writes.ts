// SPDX-License-Identifier: Apache-2.0
/** When a status is worth a write: conditions at once, everything else at most every few seconds. */
export const QUIET_MS = 5_000;

interface WithConditions {
  readonly conditions?:
    readonly { readonly type: string; readonly status: string; readonly reason: string }[] | undefined;
}

export function isSameStatus(former: object | undefined, next: object): boolean {
  return stable(former ?? {}) === stable(next);
}

/** @param sinceMs  since the last write */
export function mayWrite(former: WithConditions | undefined, next: WithConditions, sinceMs: number): boolean {
  return sinceMs >= QUIET_MS || digest(former) !== digest(next);
}

function digest({ conditions = [] }: WithConditions = {}): string {
  return conditions.map(({ type, status, reason }) => `${type}=${status}/${reason}`).join();
}

/** The API server does not keep the order of fields. */
function stable(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
