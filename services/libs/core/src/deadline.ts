// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";
import { onAbort } from "./on-abort.ts";

// Deadlines combine, never replace: a child ends no later than its parent, and hears its parent's cancel.
// Timers are unref'd and cleared on dispose, so no deadline keeps a process alive.

/** Longest delay that setTimeout takes; longer ones would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What an aborted wait throws: the signal's reason when it is an Error, else CANCELLED. */
export function abortReason(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error
    ? reason
    : new WhetstoneError("CANCELLED", typeof reason === "string" ? reason : "cancelled");
}

export class Deadline implements Disposable {
  /** Aborts when time is up (DEADLINE_EXCEEDED) or when the parent does (the parent's reason). */
  readonly signal: AbortSignal;
  readonly #expiresAtMs: number;
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal | undefined;
  #timer: NodeJS.Timeout | undefined;
  #leaveParent: (() => void) | undefined;

  private constructor(ms: number, parent?: Deadline | AbortSignal) {
    const parentMs = parent instanceof Deadline ? parent.remainingMs() : Number.POSITIVE_INFINITY;
    const budgetMs = Math.max(0, Math.min(ms, parentMs));
    this.signal = this.#controller.signal;
    this.#parent = parent instanceof Deadline ? parent.signal : parent;
    this.#expiresAtMs = performance.now() + budgetMs;
    if (this.#parent?.aborted) this.#onParentAbort();
    else this.#arm(budgetMs);
  }

  /** @param ms  milliseconds from now; `Infinity` means only the parent ends it. */
  static after(ms: number, parent?: Deadline | AbortSignal): Deadline {
    if (Number.isNaN(ms)) throw new WhetstoneError("INVALID_ARGUMENT", "a deadline needs a number of milliseconds");
    return new Deadline(ms, parent);
  }

  /** Milliseconds left, never below 0; 0 once aborted. */
  remainingMs(): number {
    return this.signal.aborted ? 0 : Math.max(0, this.#expiresAtMs - performance.now());
  }

  throwIfExpired(): void {
    if (this.signal.aborted) throw abortReason(this.signal);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#leaveParent?.();
  }

  #arm(budgetMs: number): void {
    if (this.#parent !== undefined) this.#leaveParent = onAbort(this.#parent, this.#onParentAbort);
    if (budgetMs === Number.POSITIVE_INFINITY) return;
    this.#startTimer(budgetMs, budgetMs);
  }

  #startTimer(leftMs: number, budgetMs: number): void {
    const delayMs = Math.min(leftMs, MAX_TIMER_MS);
    this.#timer = setTimeout(() => {
      const stillMs = this.#expiresAtMs - performance.now();
      if (stillMs > 1) this.#startTimer(stillMs, budgetMs);
      else this.#expire(budgetMs);
    }, delayMs);
    this.#timer.unref();
  }

  #expire(budgetMs: number): void {
    this[Symbol.dispose]();
    this.#controller.abort(
      new WhetstoneError("DEADLINE_EXCEEDED", `deadline of ${Math.round(budgetMs)} ms exceeded`, {
        context: { budgetMs },
      }),
    );
  }

  readonly #onParentAbort = (): void => {
    this[Symbol.dispose]();
    this.#controller.abort(this.#parent === undefined ? undefined : abortReason(this.#parent));
  };
}

/** Resolves after `ms`, or rejects with the signal's reason. Keeps the process alive while it waits, not after. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortReason(signal));
      return;
    }
    const timer = setTimeout(
      () => {
        leave?.();
        resolve();
      },
      Math.min(ms, MAX_TIMER_MS),
    );
    const leave =
      signal &&
      onAbort(signal, () => {
        clearTimeout(timer);
        reject(abortReason(signal));
      });
  });
}

/** Settles as `work` does, or rejects with the signal's reason first. The work itself must watch the signal to stop. */
export async function raceSignal<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => {
    reject(abortReason(signal));
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    work.catch(() => undefined); // The loser of the race may still reject; nobody waits for it any more.
  }
}

/** Runs `fn` under a deadline that combines with `signal`; rejects at the deadline even if `fn` does not listen. */
export async function withTimeout<T>(
  fn: (signal: AbortSignal) => Promise<T>,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  using deadline = Deadline.after(options.timeoutMs, options.signal);
  deadline.throwIfExpired();
  return await raceSignal(fn(deadline.signal), deadline.signal);
}
