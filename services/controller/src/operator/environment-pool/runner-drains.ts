// SPDX-License-Identifier: Apache-2.0
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Gate } from "@whetstone/core";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient } from "@whetstone/rpc";
import type { TlsIdentity } from "@whetstone/tls";
import type { Logger } from "@whetstone/telemetry";

const ANSWER_MS = 3_000;
const AT_ONCE = 32;

/** Tells env-runners to drain, and asks those how far they are; the others are never asked anything. */
export class RunnerDrains {
  readonly #tls: TlsIdentity | undefined;
  readonly #logger: Logger;
  readonly #gate = new Gate(AT_ONCE, { maxQueued: Number.POSITIVE_INFINITY });

  constructor(tls: TlsIdentity | undefined, logger: Logger) {
    this.#tls = tls;
    this.#logger = logger;
  }

  /** @returns sessions open there; undefined: it does not answer */
  drain(address: string, leftMs: number, signal: AbortSignal): Promise<number | undefined> {
    return this.#ask(address, { deadline: durationFromMs(Math.max(0, leftMs)) }, signal);
  }

  undo(address: string, signal: AbortSignal): Promise<number | undefined> {
    return this.#ask(address, { undo: true }, signal);
  }

  async #ask(
    address: string,
    request: { deadline?: ReturnType<typeof durationFromMs>; undo?: boolean },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    try {
      return await this.#gate.run(async () => {
        await using client = createClient(EnvironmentService, address, { tls: this.#tls?.to("env-runner") });
        return (await client.drain(request, { signal, deadlineMs: ANSWER_MS })).slotsUsed;
      }, signal);
    } catch (error) {
      this.#logger.debug("runner_not_asked", { address, error });
      return undefined;
    }
  }
}
