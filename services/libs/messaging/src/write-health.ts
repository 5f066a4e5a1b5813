// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { jetstream } from "@nats-io/jetstream";
import { LEDGER_BUCKET } from "./topology.ts";

// Does a server refuse to write? A stream of nats-server that could not write once, because its disk was full, refuses every
// later write until the server is started again, though there is space by then. It answers such a publish with nothing at all.

const ASK_MS = 1_500;
const WRITE_MS = 3_000;
/** Larger than what a file system finds room for in a block that it has given out already. */
const PROBE = new Uint8Array(16 * 1024);
const PROBE_SUBJECT = `$KV.${LEDGER_BUCKET}._probe.write`;

/** Of `/healthz`: a stream, or the log of a cluster's group, that failed to write. */
const REFUSALS = /write error|no space left|insufficient storage/i;

/**
 * Why the server refuses writes, in its own words. Undefined: it does not, or it does not answer, which is another fault.
 * @param monitor  its monitoring port, as `http://127.0.0.1:8222`
 */
export async function writeRefusal(monitor: string, signal?: AbortSignal): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(ASK_MS);
  try {
    const answer = await fetch(new URL("/healthz", monitor), {
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const { error = "" } = (await answer.json()) as { error?: string };
    return !answer.ok && REFUSALS.test(error) ? error : undefined;
  } catch {
    return undefined;
  }
}

/** As `writeRefusal`, of a server whose monitoring port nobody here can reach: by a write of our own to the ledger. */
export async function failedWrite(connection: NatsConnection): Promise<string | undefined> {
  if (connection.isClosed()) return undefined;
  try {
    await connection.flush(); // One that does not answer at all is away, and clients say so.
    await jetstream(connection).publish(PROBE_SUBJECT, PROBE, { timeout: WRITE_MS });
    return undefined;
  } catch (error) {
    return `a write to ${LEDGER_BUCKET} was not confirmed: ${error instanceof Error ? error.message : String(error)}`;
  }
}
