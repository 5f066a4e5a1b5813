// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { ApiError } from "../completion/api-error.ts";
import { CallScope } from "../completion/call-scope.ts";
import type { Completion } from "../completion/complete.ts";
import { Lru } from "../lru.ts";
import type { Session } from "./session.ts";

interface SharedCall {
  /** Of a call that another replica answered its digest, as `digestOf` makes it. */
  readonly body: string;
  readonly scope: CallScope;
  readonly answer: Promise<Completion>;
  waiting: number;
  /** Once it is there. */
  completion?: Completion;
}

/** An answer that a repeated request gets. */
export interface KeptAnswer {
  readonly key: string;
  /** Of the request's body. */
  readonly digest: string;
  readonly completion: Completion;
}

/**
 * Joins a repeated request to the first one, or replays its answer. Only requests that carry the header
 * `x-whetstone-idempotency-key` are matched: two equal requests without it are two samples, which is what a group of
 * rollouts or a retrying agent means by them, and no OpenAI client marks its retries in a way that tells them apart.
 */
export class SharedCalls {
  readonly #calls = new Lru<string, SharedCall>(8);

  /** @throws ApiError 422 when the key was used for another body, else what the call throws. */
  run(
    key: string,
    body: string,
    scope: CallScope,
    start: (scope: CallScope) => Promise<Completion>,
  ): Promise<Completion> {
    const known = this.#calls.get(key);
    if (known !== undefined && known.body !== body && known.body !== digestOf(body))
      return Promise.reject(keyReused(key));
    const shared = known && !known.scope.reason ? known : this.#begin(key, body, start);
    shared.waiting++;
    scope.waitsFor = "the answer that its idempotency key shares";
    return new Promise((resolve, reject) => {
      scope.onCancel(() => {
        const reason = scope.reason ?? keyReused(key);
        // The work goes on for whoever still waits for it.
        if (--shared.waiting === 0) shared.scope.cancel(reason);
        reject(reason);
      });
      shared.answer.then(resolve, reject).finally(() => {
        scope.onCancel();
      });
    });
  }

  /** Those that are answered, the most recently used last. */
  kept(): KeptAnswer[] {
    return [...this.#calls.entries()].flatMap(([key, { body, completion }]) =>
      completion === undefined ? [] : [{ key, digest: isDigest(body) ? body : digestOf(body), completion }],
    );
  }

  /** Takes over what another replica kept. */
  keep({ key, digest, completion }: KeptAnswer): void {
    const answer = Promise.resolve(completion);
    this.#calls.set(key, { body: digest, scope: new CallScope(), answer, waiting: 0, completion });
  }

  #begin(key: string, body: string, start: (scope: CallScope) => Promise<Completion>): SharedCall {
    const scope = new CallScope();
    const answer = start(scope);
    const shared: SharedCall = { body, scope, answer, waiting: 0 };
    this.#calls.set(key, shared);
    answer.then(
      (completion) => {
        shared.completion = completion;
      },
      // A failure is not replayed: the retry that comes for it deserves a new attempt.
      (error: unknown) => {
        scope.cancel(
          error instanceof ApiError ? error : new ApiError("INTERNAL", "internal_error", "the shared call failed"),
        );
      },
    );
    return shared;
  }
}

/** No body of a request begins so: those are JSON. */
const DIGEST = "sha256:";

function digestOf(body: string): string {
  return DIGEST + createHash("sha256").update(body).digest("base64");
}

function isDigest(body: string): boolean {
  return body.startsWith(DIGEST);
}

/** Of every session, for as long as it is here. */
export class SharedBySession {
  readonly #calls = new WeakMap<Session, SharedCalls>();

  of(session: Session): SharedCalls {
    const calls = this.#calls.get(session) ?? new SharedCalls();
    this.#calls.set(session, calls);
    return calls;
  }
}

function keyReused(key: string): ApiError {
  const message = `x-whetstone-idempotency-key: "${key}" was used for another request body in this session`;
  return new ApiError("CONFLICT", "idempotency_key_reused", message);
}
