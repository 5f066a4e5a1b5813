// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "./api-error.ts";
import { CallScope } from "./call-scope.ts";
import { complete } from "./complete.ts";
import type { Completion, CompletionCall, CompletionDeps, OnPiece } from "./complete.ts";

interface Many {
  readonly n: number;
  readonly scope: CallScope;
  readonly onPieceOf: ((index: number) => OnPiece) | undefined;
}

/**
 * Several answers to one prompt, side by side: each is a call of its own in the session's tree, with a seed of its own. The
 * first that fails ends the others, as the client gets all or none.
 */
export async function completeMany(
  deps: CompletionDeps,
  call: CompletionCall,
  { n, scope, onPieceOf }: Many,
): Promise<Completion[]> {
  scope.waitsFor = `its ${n} answers`;
  const scopes = Array.from({ length: n }, () => new CallScope());
  scope.onCancel(() => {
    for (const own of scopes) if (scope.reason) own.cancel(scope.reason);
  });
  const answers = scopes.map((own, index) => complete(deps, callAt(deps, call, index), own, onPieceOf?.(index)));
  try {
    return await Promise.all(answers);
  } catch (error) {
    const reason =
      scope.reason ?? new ApiError("CANCELLED", "sibling_failed", "another answer of the same request failed");
    for (const own of scopes) own.cancel(reason);
    await Promise.allSettled(answers);
    throw error;
  } finally {
    scope.onCancel();
  }
}

function callAt(deps: CompletionDeps, call: CompletionCall, index: number): CompletionCall {
  const { seed } = call.request.sampling;
  const own = seed === undefined || index === 0 ? seed : deps.attemptSeed(seed, SEEDS_OF_ATTEMPTS + index);
  const request = { ...call.request, sampling: { ...call.request.sampling, seed: own } };
  return { ...call, request, requestId: `${call.requestId}-n${index}` };
}

/** Seeds below belong to the attempts of one call. */
const SEEDS_OF_ATTEMPTS = 1_000_000;
