// SPDX-License-Identifier: Apache-2.0
import { Metadata, type ServiceError, status, type StatusObject } from "@grpc/grpc-js";
import {
  ConfigError,
  ERROR_CODES,
  type ErrorCode,
  RETRY_CLASSES,
  type Violation,
  WhetstoneError,
} from "@whetstone/core";

// The one seam between errors and the wire. Text and code travel, causes never do; what is not a WhetstoneError leaves as
// "internal error". Trailer `whetstone-error-bin` holds a whetstone.types.v1.ErrorDetail in protobuf's JSON form, so that other
// languages read it without our types. Trailers are bounded: many peers refuse more than 8 KiB of metadata.

export const ERROR_TRAILER = "whetstone-error-bin";
const MAX_DETAIL_BYTES = 4096;
const MAX_MESSAGE_CHARACTERS = 1024;

const TO_STATUS = {
  INVALID_ARGUMENT: status.INVALID_ARGUMENT,
  UNKNOWN_SETTING: status.INVALID_ARGUMENT,
  UNSUPPORTED_SETTING: status.INVALID_ARGUMENT,
  NOT_FOUND: status.NOT_FOUND,
  ALREADY_EXISTS: status.ALREADY_EXISTS,
  CONFLICT: status.ABORTED,
  FAILED_PRECONDITION: status.FAILED_PRECONDITION,
  UNAUTHENTICATED: status.UNAUTHENTICATED,
  PERMISSION_DENIED: status.PERMISSION_DENIED,
  UNAVAILABLE: status.UNAVAILABLE,
  DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,
  CANCELLED: status.CANCELLED,
  RESOURCE_EXHAUSTED: status.RESOURCE_EXHAUSTED,
  UNIMPLEMENTED: status.UNIMPLEMENTED,
  INTERNAL: status.INTERNAL,
  DATA_LOSS: status.DATA_LOSS,
  CONTRACT_VIOLATION: status.INTERNAL,
  STALE_EPOCH: status.FAILED_PRECONDITION,
  STALE_POLICY: status.FAILED_PRECONDITION,
  TASK_INVALID: status.INVALID_ARGUMENT,
  ENVIRONMENT_FAILED: status.INTERNAL,
  GRADER_FAILED: status.INTERNAL,
  ENGINE_FAILED: status.UNAVAILABLE,
  TRAINER_FAILED: status.INTERNAL,
  MODULE_CRASHED: status.UNAVAILABLE,
  MODULE_HUNG: status.UNAVAILABLE,
  MODULE_TOO_LARGE: status.UNAVAILABLE,
  HANDED_BACK: status.UNAVAILABLE,
} as const satisfies Record<ErrorCode, status>;

/** For peers that send no trailer of ours: the first code that maps to a status speaks for it. */
const FROM_STATUS: ReadonlyMap<number, ErrorCode> = new Map([
  ...ERROR_CODES.map((code): [number, ErrorCode] => [TO_STATUS[code], code]).reverse(),
  [status.OUT_OF_RANGE, "INVALID_ARGUMENT"],
  [status.UNKNOWN, "INTERNAL"],
]);

export function toStatus(thrown: unknown): Pick<StatusObject, "code" | "details" | "metadata"> {
  const error = publicError(thrown);
  const metadata = new Metadata();
  metadata.set(ERROR_TRAILER, encodeDetail(error));
  return { code: TO_STATUS[error.code], details: shorten(error.message), metadata };
}

/** True when `toStatus` would hide it: the server logs those with their cause. */
export function isUnexpected(thrown: unknown): boolean {
  return publicError(thrown) !== thrown && publicError(thrown).code === "INTERNAL";
}

export function fromStatus(error: ServiceError, context: Readonly<Record<string, unknown>> = {}): WhetstoneError {
  const detail = decodeDetail(error.metadata);
  const code = detail.code ?? FROM_STATUS.get(error.code) ?? "INTERNAL";
  const options = { retry: detail.retry, context: { ...context, ...detail.context }, cause: error };
  if (detail.violations !== undefined) return new ConfigError(detail.violations, { ...options, code });
  return new WhetstoneError(code, detail.message ?? error.details, options);
}

function publicError(thrown: unknown): WhetstoneError {
  const error = WhetstoneError.from(thrown);
  const isOurs = error === thrown || error.code !== "INTERNAL";
  return isOurs ? error : new WhetstoneError("INTERNAL", "internal error", { cause: thrown });
}

interface ErrorDetail {
  readonly code?: ErrorCode;
  readonly retry?: WhetstoneError["retry"];
  readonly context?: Readonly<Record<string, unknown>>;
  readonly violations?: readonly Violation[];
  readonly message?: string;
}

function encodeDetail(error: WhetstoneError): Buffer {
  const detail = { code: error.code, retry: error.retry };
  const violations = error instanceof ConfigError ? { violations: error.violations.map(onlyWire) } : {};
  const long = error.message.length > MAX_MESSAGE_CHARACTERS && !("violations" in violations);
  const candidates = [
    { ...detail, ...violations, context: error.context, ...(long ? { message: error.message } : {}) },
    { ...detail, ...violations },
    { ...detail, ...("violations" in violations ? { violations: firstThatFit(violations.violations) } : {}) },
    detail,
  ];
  const encoded = candidates.map(toJson).find((bytes) => bytes !== undefined && bytes.length <= MAX_DETAIL_BYTES);
  return encoded ?? Buffer.from(JSON.stringify(detail));
}

/** Some violations know more, which is no business of the caller's. */
function onlyWire({ path, reason }: Violation): Violation {
  return { path, reason };
}

/** Context may hold what JSON cannot (bigint, cycles): then it stays at home. */
function toJson(value: unknown): Buffer | undefined {
  try {
    return Buffer.from(JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? v.toString() : v)));
  } catch {
    return undefined;
  }
}

function firstThatFit(violations: readonly Violation[]): Violation[] {
  const kept: Violation[] = [];
  let bytes = 256;
  for (const violation of violations) {
    bytes += Buffer.byteLength(JSON.stringify(violation)) + 1;
    if (bytes > MAX_DETAIL_BYTES) break;
    kept.push(violation);
  }
  const left = violations.length - kept.length;
  if (left > 0) kept.splice(-1, 1, { path: "", reason: `and ${left + 1} more violations` });
  return kept;
}

function decodeDetail(metadata: Metadata | undefined): ErrorDetail {
  const bytes = metadata?.get(ERROR_TRAILER)[0];
  if (bytes === undefined) return {};
  try {
    const raw = JSON.parse(bytes.toString()) as ErrorDetail;
    const known = raw.code !== undefined && ERROR_CODES.includes(raw.code);
    const retry = RETRY_CLASSES.find((r) => r === raw.retry);
    return withoutUndefined({ ...raw, code: known ? raw.code : undefined, retry });
  } catch {
    return {}; // Not ours, or cut off on the way: the status alone speaks.
  }
}

function shorten(message: string): string {
  return message.length <= MAX_MESSAGE_CHARACTERS ? message : `${message.slice(0, MAX_MESSAGE_CHARACTERS)}…`;
}

function withoutUndefined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as never;
}
