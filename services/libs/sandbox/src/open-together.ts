// SPDX-License-Identifier: Apache-2.0
import type { OpenOptions, Sandbox, SandboxBackend } from "./sandbox.ts";

/** For the second; twice as long each time, since a pod of a new image may take minutes to start. */
const FIRST_PATIENCE_MS = 5_000;
const LONGEST_PATIENCE_MS = 300_000;

/**
 * Opens two or none. Where a pool is full, `open` waits; those who hold one of two each would wait for each other for ever. So
 * whoever waits too long for the second gives the first back, and asks again.
 * @throws SandboxError; the signal's reason
 */
export async function openTogether(
  backend: SandboxBackend,
  first: OpenOptions,
  second: OpenOptions,
  signal?: AbortSignal,
): Promise<readonly [Sandbox, Sandbox]> {
  for (let patienceMs = FIRST_PATIENCE_MS; ; patienceMs = Math.min(2 * patienceMs, LONGEST_PATIENCE_MS)) {
    const both = await tryOnce(backend, { first, second, signal, patienceMs: between(patienceMs) });
    if (both !== undefined) return both;
  }
}

/** Half of it to one and a half, so that not all who wait give up at the same time. */
function between(milliseconds: number): number {
  return Math.round(milliseconds * (0.5 + Math.random()));
}

interface Try {
  readonly first: OpenOptions;
  readonly second: OpenOptions;
  readonly signal: AbortSignal | undefined;
  readonly patienceMs: number;
}

async function tryOnce(backend: SandboxBackend, { first, second, signal, patienceMs }: Try) {
  const held = await backend.open({ ...first, signal });
  const patience = AbortSignal.timeout(patienceMs);
  const either = signal === undefined ? patience : AbortSignal.any([signal, patience]);
  try {
    return [held, await backend.open({ ...second, signal: either })] as const;
  } catch (error) {
    await held.close();
    if (patience.aborted && signal?.aborted !== true) return undefined;
    throw error;
  }
}
