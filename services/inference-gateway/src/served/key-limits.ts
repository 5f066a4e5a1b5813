// SPDX-License-Identifier: Apache-2.0
import type { ServingKey } from "@whetstone/proto/serving/v1/serving";
import { ApiError } from "../completion/api-error.ts";

const MINUTE_MS = 60_000;

type Limits = Pick<ServingKey, "requestsPerMinute" | "tokensPerMinute" | "maxRunning">;

/** What the holder of a key may ask for, at this replica of the gateway. */
export class KeyLimits {
  readonly #requests: Allowance;
  readonly #tokens: Allowance;
  #maxRunning: number;
  #running = 0;

  constructor({ requestsPerMinute, tokensPerMinute, maxRunning }: Limits, nowMs: number) {
    this.#requests = new Allowance(requestsPerMinute, nowMs);
    this.#tokens = new Allowance(tokensPerMinute, nowMs);
    this.#maxRunning = maxRunning ?? Number.POSITIVE_INFINITY;
  }

  /** What is used up stays used up. */
  change({ requestsPerMinute, tokensPerMinute, maxRunning }: Limits): void {
    this.#requests.change(requestsPerMinute);
    this.#tokens.change(tokensPerMinute);
    this.#maxRunning = maxRunning ?? Number.POSITIVE_INFINITY;
  }

  /** Counts a request, until the returned function is called. @throws ApiError 429 */
  begin(nowMs: number): () => void {
    if (this.#running >= this.#maxRunning)
      throw tooMany(`${this.#running} requests of this key run already, which are as many as it may have`, 1);
    this.#refuseUsedUp(this.#requests, "requests", nowMs);
    this.#refuseUsedUp(this.#tokens, "tokens", nowMs);
    this.#requests.use(1);
    this.#running++;
    return () => {
      this.#running--;
    };
  }

  /** Tokens are known when an answer is there: the last request may take more than is left, and the next one waits for it. */
  useTokens(count: number): void {
    this.#tokens.use(count);
  }

  #refuseUsedUp(allowance: Allowance, what: string, nowMs: number): void {
    const waitMs = allowance.waitMs(nowMs);
    if (waitMs === 0) return;
    const message = `this key may have ${allowance.perMinute} ${what} a minute, which are used up`;
    throw tooMany(message, Math.ceil(waitMs / 1000));
  }
}

/** So much a minute, which comes back evenly: a token bucket that holds a minute's worth. */
class Allowance {
  perMinute: number;
  #left: number;
  #seenMs: number;

  constructor(perMinute: number | undefined, nowMs: number) {
    this.perMinute = perMinute ?? Number.POSITIVE_INFINITY;
    this.#left = this.perMinute;
    this.#seenMs = nowMs;
  }

  change(perMinute: number | undefined): void {
    const former = this.perMinute;
    this.perMinute = perMinute ?? Number.POSITIVE_INFINITY;
    // Without a bound before there is nothing to go on from.
    this.#left = former === Number.POSITIVE_INFINITY ? this.perMinute : Math.min(this.#left, this.perMinute);
  }

  use(count: number): void {
    this.#left -= count;
  }

  /** Until there is one again; 0: there is one now. */
  waitMs(nowMs: number): number {
    if (this.perMinute === Number.POSITIVE_INFINITY) return 0;
    this.#left = Math.min(this.perMinute, this.#left + ((nowMs - this.#seenMs) * this.perMinute) / MINUTE_MS);
    this.#seenMs = nowMs;
    return this.#left >= 1 ? 0 : ((1 - this.#left) * MINUTE_MS) / this.perMinute;
  }
}

function tooMany(message: string, retryAfterS: number): ApiError {
  return new ApiError("RESOURCE_EXHAUSTED", "rate_limit_exceeded", message, { retryAfterS });
}
