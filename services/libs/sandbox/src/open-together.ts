// SPDX-License-Identifier: Apache-2.0
import { Gate } from "@whetstone/core";
import type { OpenOptions, Sandbox, SandboxBackend } from "./sandbox.ts";

/** For the second: longer than a pod takes to start. Twice as long each time, since one of a new image may take minutes. */
const FIRST_PATIENCE_MS = 20_000;
const LONGEST_PATIENCE_MS = 300_000;

/** Of those who gave a first one back, one at a time tries again: else they could keep each other from a second for ever. */
const retries = new WeakMap<SandboxBackend, Gate>();

/**
 * Opens two or none. Where a pool is full, `open` waits; those who hold one of two each would wait for each other for ever. So
 * whoever waits too long for the second gives the first back, and asks again once no other of this process does. Against those of
 * other processes it waits longer each time.
 * @throws SandboxError; the signal's reason
 */
export async function openTogether(
  backend: SandboxBackend,
  first: OpenOptions,
  second: OpenOptions,
  { signal, patienceMs = FIRST_PATIENCE_MS }: { signal?: AbortSignal | undefined; patienceMs?: number } = {},
): Promise<readonly [Sandbox, Sandbox]> {
  const both = await tryOnce(backend, { first, second, signal, patienceMs: between(patienceMs) });
  if (both !== undefined) return both;
  using _turn = await retryGate(backend).acquire(signal);
  for (let wait = patienceMs; ; wait = Math.min(2 * wait, LONGEST_PATIENCE_MS)) {
    const retried = await tryOnce(backend, { first, second, signal, patienceMs: between(wait) });
    if (retried !== undefined) return retried;
  }
}

function retryGate(backend: SandboxBackend): Gate {
  const gate = retries.get(backend) ?? new Gate(1);
  retries.set(backend, gate);
  return gate;
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
  const held = await backend.open({ ...first, withAnother: true, signal });
  const patience = AbortSignal.timeout(patienceMs);
  const either = signal === undefined ? patience : AbortSignal.any([signal, patience]);
  try {
    return [held, await backend.open({ ...second, beside: held, signal: either })] as const;
  } catch (error) {
    await held.close();
    if (patience.aborted && signal?.aborted !== true) return undefined;
    throw error;
  }
}
