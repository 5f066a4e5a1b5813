// SPDX-License-Identifier: Apache-2.0
import type { ApiError } from "./api-error.ts";

/**
 * What ends a call before its answer: the client left, its deadline passed, the gateway closes.
 * At any moment a call waits for one thing only (an engine, an answer, a pause), so one listener is enough; an
 * AbortSignal with its event machinery costs several microseconds a call, which is a tenth of the whole budget.
 */
export class CallScope {
  #reason: ApiError | undefined;
  #listener: (() => void) | undefined;
  /** What the call waits for, as people are told when its deadline has passed. */
  waitsFor = "its prompt to be read";

  /** Why the call ended early; undefined: it has not. */
  get reason(): ApiError | undefined {
    return this.#reason;
  }

  /** Ends the call; only the first reason counts. */
  cancel(reason: ApiError): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.();
  }

  /** Replaces the listener, or removes it. Runs it at once when the call has already ended. */
  onCancel(listener?: () => void): void {
    if (listener !== undefined && this.#reason !== undefined) listener();
    else this.#listener = listener;
  }

  /** @throws ApiError the reason, when the call has ended. */
  throwIfCancelled(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }
}

/** What the work brings, or the scope's reason as soon as the call has ended. The work itself goes on unheard. */
export function unlessCancelled<T>(work: Promise<T>, scope: CallScope): Promise<T> {
  return new Promise((resolve, reject) => {
    scope.onCancel(() => {
      reject(scope.reason ?? new Error("cancelled without a reason"));
    });
    work.then(resolve, reject).finally(() => {
      scope.onCancel();
    });
  });
}
