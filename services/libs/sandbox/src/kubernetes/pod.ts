// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { LimitError, type PolicyFailure, SandboxError } from "../failure.ts";
import type { ClaimedPod, PodClaims } from "./claims.ts";
import { PodConnection } from "./connection.ts";

/** How long a pod that is there may not answer. */
const PATIENCE_MS = 20_000;
const AGAIN_MS = 200;

/** Thrown instead of trying again: the answer was understood. */
type Settled = SandboxError | LimitError | WhetstoneError;

/** A claimed pod as its user sees it: reachable, or over for a reason. */
export class Pod {
  readonly id: string;
  readonly connection: PodConnection;
  readonly #claims: PodClaims;
  readonly #endsAt: number;
  #over: SandboxError | LimitError | undefined;

  /** @param endsAt  of `performance.now()` */
  constructor(claims: PodClaims, claimed: ClaimedPod, endsAt: number) {
    this.id = claimed.id;
    this.connection = new PodConnection(claimed);
    this.#claims = claims;
    this.#endsAt = endsAt;
  }

  get over(): SandboxError | LimitError | undefined {
    if (this.#over === undefined && performance.now() >= this.#endsAt) this.end(expired());
    return this.#over;
  }

  /** The limit that ended it, all of it: what the policy's commands did. */
  get limit(): PolicyFailure | undefined {
    return this.#over instanceof LimitError ? this.#over.failure : undefined;
  }

  /** The first reason stands. */
  end(reason: SandboxError | LimitError): void {
    this.#over ??= reason;
  }

  /**
   * Does what may be done twice, and again where the network failed, for as long as the pod is there.
   * @throws what `work` says of the answer; why the pod is over
   */
  async reach<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let failingSince: number | undefined; ;) {
      if (this.over) throw this.over;
      const startedAt = performance.now();
      try {
        return await work();
      } catch (error) {
        if (isSettled(error) || signal?.aborted) throw error;
        if (this.#over) throw this.#over;
        // One that went on for long was well.
        if (failingSince === undefined || performance.now() - startedAt > PATIENCE_MS) failingSince = performance.now();
        await this.#ask(error, performance.now() - failingSince >= PATIENCE_MS);
      }
      await sleep(AGAIN_MS, signal);
    }
  }

  async release(): Promise<void> {
    this.connection[Symbol.dispose]();
    await this.#claims.release(this.id);
  }

  /** What has become of it. @throws why it is over */
  async #ask(cause: unknown, isLate: boolean): Promise<void> {
    const fate = await this.#claims.fate(this.id).catch(() => ({ kind: "there" }) as const);
    if (fate.kind === "expired") this.end(expired());
    if (fate.kind === "limit") this.end(new LimitError(fate.failure, `the sandbox's pod was ended: ${fate.failure}`));
    if (fate.kind === "gone") this.end(lost(fate.why, cause));
    if (fate.kind === "there" && isLate) this.end(lost(WhetstoneError.from(cause).message, cause));
    if (this.over) throw this.over;
  }
}

function isSettled(error: unknown): error is Settled {
  return error instanceof WhetstoneError;
}

function expired(): SandboxError {
  return new SandboxError("EXPIRED", "the sandbox's time to live is over: open it with a longer ttlMs");
}

function lost(why: string, cause: unknown): SandboxError {
  return new SandboxError("LOST", `the sandbox's pod is lost: ${why}`, { cause });
}
