// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

/**
 * A value as JSON holds it. Whole numbers beyond 2^53 become text, dates ISO text, `undefined` disappears.
 * @param path  Where the value stands, for the error.
 * @throws WhetstoneError INVALID_ARGUMENT for what JSON cannot say: NaN, functions, bytes.
 */
export function jsonValue(value: unknown, path: string): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw refusal(path, String(value));
    case "bigint":
      return BigInt(Number(value)) === value && Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
    case "object":
      return value === null ? null : jsonObject(value, path);
    default:
      throw refusal(path, typeof value);
  }
}

function jsonObject(value: object, path: string): unknown {
  if (Array.isArray(value)) return value.map((item, index) => jsonValue(item, `${path}[${index}]`));
  if (value instanceof Date) return value.toISOString();
  if (ArrayBuffer.isView(value)) throw refusal(path, "bytes");
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.map(([key, inner]) => [key, jsonValue(inner, `${path}.${key}`)]));
}

function refusal(path: string, what: string): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", `${path}: JSON cannot hold ${what}`);
}
