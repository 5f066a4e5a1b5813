// SPDX-License-Identifier: Apache-2.0
import { EpisodeError, ownClass, type Phase } from "../failure.ts";

/** Where errors came from, so that a workflow may let them pass, or wrap them, and their class is still known. */
export class Places {
  readonly #phases = new WeakMap<object, Phase>();

  /** @returns what to throw. */
  mark(error: unknown, phase: Phase): unknown {
    const thrown = typeof error === "object" && error !== null ? error : new Error(String(error));
    if (!this.#phases.has(thrown)) this.#phases.set(thrown, phase);
    return thrown;
  }

  /** The error that a phase threw, itself or as the cause of what came out of the workflow. */
  find(error: unknown): { readonly error: unknown; readonly phase: Phase } | undefined {
    for (const link of causes(error)) {
      const phase = this.#phases.get(link);
      if (phase) return { error: link, phase };
    }
    return undefined;
  }
}

/** Own code that fails fails again: a broken task. A connection of its own that broke is a passing fault. */
export function ownFailure(error: unknown, what: string): unknown {
  if (ownClass(error) !== undefined) return error;
  const message = `the ${what} failed: ${error instanceof Error ? error.message : String(error)}`;
  return new EpisodeError(isConnectionTrouble(error) ? "INFRASTRUCTURE" : "TASK", message, { cause: error });
}

const CONNECTION_CODES: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EAI_AGAIN",
  "UND_ERR_SOCKET",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);
const BUSY = 429;
const SERVER_ERROR = 500;

/** Errors of Node's sockets and fetch, and of HTTP clients that put the answer's `status` on their errors. */
function isConnectionTrouble(error: unknown): boolean {
  return causes(error).some((link) => {
    const { code, status } = link as { code?: unknown; status?: unknown };
    return CONNECTION_CODES.has(code) || (typeof status === "number" && (status === BUSY || status >= SERVER_ERROR));
  });
}

const LONGEST_CHAIN = 8;

function causes(error: unknown): object[] {
  const chain: object[] = [];
  let link: unknown = error;
  while (typeof link === "object" && link !== null && chain.length < LONGEST_CHAIN) {
    chain.push(link);
    link = (link as { cause?: unknown }).cause;
  }
  return chain;
}
