// SPDX-License-Identifier: Apache-2.0
import { isAbort, WhetstoneError } from "@whetstone/core";

/** As python-trainer/src/whetstone_store/errors.py. */
const FULL: ReadonlySet<string> = new Set([
  "QuotaExceeded",
  "InsufficientStorage",
  "StorageFull",
  "XMinioStorageFull",
  "ServiceQuotaExceededException",
]);
const INSUFFICIENT_STORAGE = 507;
const ABSENT: ReadonlySet<string> = new Set(["NoSuchKey", "NotFound"]);

interface Refusal {
  readonly name?: string;
  readonly message?: string;
  /** Of a socket, such as ECONNREFUSED. */
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Whether the store answered that there is no such object. A bucket that is not there is something else. */
export function isAbsent(error: unknown): boolean {
  return ABSENT.has((error as Refusal).name ?? "");
}

/** Whether the same request may succeed at once: the store did not answer, or said that it is busy. */
export function isPassing(error: unknown): boolean {
  if (isAbort(error)) return false;
  const { $metadata, name = "" } = error as Refusal;
  const status = $metadata?.httpStatusCode;
  return status === undefined ? !/Credentials/.test(name) : status === 429 || (status >= 500 && !isFull(error));
}

/**
 * Of an error of the SDK: "s3://bucket/team/a: AccessDenied: Access Denied". Whatever is wrong, people can mend it while
 * others wait: it is never for good.
 */
export function storeError(what: string, error: unknown): WhetstoneError {
  if (error instanceof WhetstoneError) return error;
  if (isAbort(error)) return WhetstoneError.from(error);
  const { name = "Error", message, code = "no answer" } = error as Refusal;
  const words = `${what}: ${name}: ${message || code}`;
  const options = { retry: "later", context: { object: what }, cause: error } as const;
  return isFull(error)
    ? new WhetstoneError("RESOURCE_EXHAUSTED", `no space left in the object store: ${words}`, options)
    : new WhetstoneError("UNAVAILABLE", `the object store fails: ${words}`, options);
}

function isFull(error: unknown): boolean {
  const { name = "", $metadata } = error as Refusal;
  return FULL.has(name) || $metadata?.httpStatusCode === INSUFFICIENT_STORAGE;
}
