// SPDX-License-Identifier: Apache-2.0
import { JetStreamApiError } from "@nats-io/jetstream";
import { errors } from "@nats-io/nats-core";
import { isAbort, WhetstoneError } from "@whetstone/core";

/** Error codes of the JetStream API that we tell apart (nats-server: server/errors.json). */
export const API = {
  consumerNotFound: 10014,
  messageNotFound: 10037,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  storeFailed: 10077,
  wrongLastSequenceUnknown: 10164,
} as const;

export function apiCode(error: unknown): number | undefined {
  return error instanceof JetStreamApiError ? error.code : undefined;
}

export function isWrongLastSequence(error: unknown): boolean {
  const code = apiCode(error);
  return code === API.wrongLastSequence || code === API.wrongLastSequenceUnknown;
}

/** A stream that discards new messages refuses with one of these; only the text tells which. */
export function storeRefusal(error: unknown): "subject" | "stream" | undefined {
  if (apiCode(error) !== API.storeFailed) return undefined;
  const text = (error as Error).message;
  if (text.includes("per subject exceeded")) return "subject";
  return /maximum (messages|bytes) exceeded/.test(text) ? "stream" : undefined;
}

/** Whatever the client or server threw, as ours: `what` names the attempt, such as `publish ws.fl-1.task.default`. */
export function natsError(error: unknown, what: string): WhetstoneError {
  if (error instanceof WhetstoneError) return error;
  if (isAbort(error)) return WhetstoneError.from(error);
  const message = `${what}: ${reasonOf(error)}`;
  const code = apiCode(error);
  if (code === API.streamNotFound || code === API.consumerNotFound) {
    return new WhetstoneError("NOT_FOUND", message, { cause: error });
  }
  if (isWrongLastSequence(error)) return new WhetstoneError("CONFLICT", message, { cause: error });
  if (isTransient(error)) return new WhetstoneError("UNAVAILABLE", message, { retry: "safe", cause: error });
  return new WhetstoneError("INTERNAL", message, { cause: error });
}

function reasonOf(error: unknown): string {
  if (isUnanswered(error)) return "nobody answers: JetStream is off or starting, or no stream takes the subject";
  return error instanceof Error ? error.message : String(error);
}

/** The client reads every unanswered request as "jetstream is not enabled", also while the server starts. */
function isUnanswered(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof errors.RequestError && error.cause.isNoResponders();
}

/** A server whose disk is full, in what it says to a publish and to who wants to read: a consumer needs a file too. */
const NO_SPACE = /no space left on device|error creating store for consumer|insufficient storage resources/i;

/** Of a call that failed: NATS was away, or did not answer in time. */
export function isOutage(error: unknown): boolean {
  const { code } = WhetstoneError.from(error);
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}

/** The server is away, starting, electing or out of disk space: the same call may succeed soon. */
export function isTransient(error: unknown): boolean {
  if (isUnanswered(error)) return true;
  if (error instanceof JetStreamApiError) return error.status === 503 || NO_SPACE.test(error.message);
  if (error instanceof errors.RequestError) return error.isNoResponders() || isTransient(error.cause);
  return (
    error instanceof errors.TimeoutError ||
    error instanceof errors.NoRespondersError ||
    error instanceof errors.ConnectionError ||
    error instanceof errors.ClosedConnectionError
  );
}
