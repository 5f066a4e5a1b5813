// SPDX-License-Identifier: Apache-2.0

/** `sampling_params` of a request, as sent. */
export interface EngineSampling {
  readonly max_tokens: number;
  readonly temperature?: number;
  readonly seed?: number;
  readonly stop_token_ids?: readonly number[];
  readonly [name: string]: unknown;
}

export interface EngineAnswer {
  readonly tokenIds: readonly number[];
  /** Same length as tokenIds. */
  readonly logprobs: readonly number[];
  /** Default: `length` when the answer fills max_tokens, else `stop`. */
  readonly finishReason?: string;
}

/** What the engine says: pure, or slow if it likes. */
export type EngineScript = (
  tokenIds: readonly number[],
  sampling: EngineSampling,
) => EngineAnswer | Promise<EngineAnswer>;

/** Where a fault strikes. */
export type FaultPoint = "generate" | "pause" | "resume" | "reload" | "stage" | "label" | "health" | "abort";

/**
 * - `hang`: never answers, until the caller leaves.
 * - `status`: answers with this status and vLLM's error object.
 * - `drop`: cuts the connection; for generate after so many tokens, default 0.
 * - `wrong-label`: claims this version for the tokens. - `no-label`: claims none.
 */
export type Fault =
  | { readonly kind: "hang" }
  | { readonly kind: "status"; readonly status: number; readonly words?: string }
  | { readonly kind: "drop"; readonly afterTokens?: number }
  | { readonly kind: "wrong-label"; readonly label: string }
  | { readonly kind: "no-label" };

/** Faults waiting to strike, oldest first. */
export class FaultPlan {
  readonly #planned: { readonly point: FaultPoint; readonly fault: Fault; left: number }[] = [];

  add(point: FaultPoint, fault: Fault, times: number): void {
    this.#planned.push({ point, fault, left: times });
  }

  clear(): void {
    this.#planned.length = 0;
  }

  take(point: FaultPoint): Fault | undefined {
    const entry = this.#planned.find((planned) => planned.point === point && planned.left > 0);
    if (entry === undefined) return undefined;
    entry.left -= 1;
    return entry.fault;
  }
}

/** Repeats the prompt's tokens shifted by one, with logprob −0.5 each: deterministic and recognisable. */
export const echoScript: EngineScript = (tokenIds, { max_tokens }) => {
  const count = Math.min(max_tokens, tokenIds.length);
  return { tokenIds: tokenIds.slice(0, count).map((id) => id + 1), logprobs: Array<number>(count).fill(-0.5) };
};
