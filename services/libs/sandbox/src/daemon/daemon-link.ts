// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { LimitError, type PolicyFailure, SandboxError } from "../failure.ts";
import type { DaemonConnection } from "./connection.ts";

/** How long a daemon that is there may not answer. */
const PATIENCE_MS = 20_000;
const AGAIN_MS = 200;

/** What has become of a pod or container: it is there; a command's limit has ended it; its time was over; or it is gone, whyever. */
export type HostFate =
  | { readonly kind: "there" }
  | { readonly kind: "limit"; readonly failure: PolicyFailure }
  | { readonly kind: "expired" }
  | { readonly kind: "gone"; readonly why: string };

/** The pod or container that a daemon runs in. */
export interface DaemonHost {
  readonly id: string;
  /** For messages. */
  readonly what: "pod" | "container";
  readonly connection: DaemonConnection;
  /** @throws what says that nobody answered */
  fate(): Promise<HostFate>;
  /** Gives it back, or removes it. Harmless twice. */
  release(): Promise<void>;
}

/** Thrown instead of trying again: the answer was understood. */
type Settled = SandboxError | LimitError | WhetstoneError;

/** A daemon as its user sees it: reachable, or over for a reason. */
export class DaemonLink {
  readonly id: string;
  readonly connection: DaemonConnection;
  readonly #host: DaemonHost;
  readonly #endsAt: number;
  #over: SandboxError | LimitError | undefined;

  /** @param endsAt  of `performance.now()` */
  constructor(host: DaemonHost, endsAt: number) {
    this.id = host.id;
    this.connection = host.connection;
    this.#host = host;
    this.#endsAt = endsAt;
  }

  get over(): SandboxError | LimitError | undefined {
    if (this.#over === undefined && performance.now() >= this.#endsAt) this.end(expired());
    return this.#over;
  }

  /** The first reason stands. */
  end(reason: SandboxError | LimitError): void {
    this.#over ??= reason;
  }

  /**
   * Does what may be done twice, and again where the connection failed, for as long as the host is there.
   * @throws what `work` says of the answer; why the host is over
   */
  async reach<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let failingSince: number | undefined; ;) {
      this.#requireThere();
      const startedAt = performance.now();
      try {
        return await work();
      } catch (error) {
        if (isSettled(error) || signal?.aborted) throw error;
        this.#requireThere();
        // One that went on for long was well.
        if (failingSince === undefined || performance.now() - startedAt > PATIENCE_MS) failingSince = performance.now();
        await this.#ask(error, performance.now() - failingSince >= PATIENCE_MS);
      }
      await sleep(AGAIN_MS, signal);
    }
  }

  async release(): Promise<void> {
    this.connection[Symbol.dispose]();
    await this.#host.release();
  }

  /** What has become of it. @throws why it is over */
  async #ask(cause: unknown, isLate: boolean): Promise<void> {
    const fate = await this.#host.fate().catch(() => ({ kind: "there" }) as const);
    if (fate.kind === "expired") this.end(expired());
    if (fate.kind === "limit") this.end(this.#limited(fate.failure));
    if (fate.kind === "gone") this.end(this.#lost(fate.why, cause));
    if (fate.kind === "there" && isLate) this.end(this.#lost(WhetstoneError.from(cause).message, cause));
    this.#requireThere();
  }

  #requireThere(): void {
    if (this.over) throw this.over;
  }

  #limited(failure: PolicyFailure): LimitError {
    return new LimitError(failure, `the sandbox's ${this.#host.what} was ended: ${failure}`);
  }

  #lost(why: string, cause: unknown): SandboxError {
    return new SandboxError("LOST", `the sandbox's ${this.#host.what} is lost: ${why}`, { cause });
  }
}

function isSettled(error: unknown): error is Settled {
  return error instanceof WhetstoneError;
}

function expired(): SandboxError {
  return new SandboxError("EXPIRED", "the sandbox's time to live is over: open it with a longer ttlMs");
}
