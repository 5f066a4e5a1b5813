// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:os";
import { abortReason, WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import type { Logger } from "@whetstone/telemetry";
import { Channel } from "./channel.ts";
import { ChildOutput } from "./child-output.ts";
import type { Isolation, Launched } from "./launch.ts";
import type { ChildLimits } from "./limits.ts";
import { offerToKernel, residentMiB } from "./memory.ts";
import { type FromChild, Outbox, type ToChild } from "./wire.ts";
import { fromWire, toWire } from "./wire-error.ts";

// P1: every call is settled: by its answer, its signal, or the process's end. P2: a process that does not answer, or takes more
// memory than it may, is killed. P3: it gets none of our environment but a few harmless names. P4: it ends with us, whatever ends us.
// P5: nothing that it sends harms us: what is no message ends it.

export interface ChildOptions {
  /** The program: a module that calls `serveChild`. */
  readonly entry: URL;
  /** Whose code it runs, for messages: "job fl-1". */
  readonly name: string;
  /** What the program's `init` gets. Structured clone. */
  readonly data: unknown;
  readonly limits: ChildLimits;
  /** What keeps it from the machine; asked at each start. @throws SandboxError where it cannot be had. */
  readonly isolation: () => Promise<Isolation>;
  /** Bound to the job. */
  readonly logger: Logger;
  /** Hears of every process that ended by itself or was killed for what it did. */
  readonly onEnd?: ((cause: WhetstoneError) => void) | undefined;
}

export interface ChildCallOptions {
  /** Rejects the call at once, and tells the child. */
  readonly signal?: AbortSignal | undefined;
  /** Answers what the child asks in the call's name. Default: nothing may be asked. */
  readonly serve?: ((method: string, payload: unknown) => Promise<unknown>) | undefined;
}

interface Pending {
  readonly serve: ChildCallOptions["serve"];
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly forget: () => void;
}

const BEATS_PER_HANG = 10;
const MEMORY_EVERY_MS = 250;
const CLOSE_MS = 3_000;
/** A child that asks for more than that does not wait for answers. */
const ASKED_AT_ONCE = 16_384;
/** Errors of ours lie in no module. */
const NO_FOLDER = "/";

/** One child process from its start to its end. */
export class Child {
  /** Resolves when the module is loaded; rejects with a TASK failure when it cannot be, or with what ended the process. */
  readonly ready: Promise<void>;
  /** Resolves with what ended it. */
  readonly ended: Promise<WhetstoneError>;
  readonly #options: ChildOptions;
  readonly #launched: Launched;
  readonly #channel: Channel<ToChild[], FromChild[]>;
  readonly #output: ChildOutput;
  readonly #outbox: Outbox<ToChild>;
  readonly #pending = new Map<number, Pending>();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #ready = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<WhetstoneError>();
  /** It has done something well. */
  hasAnswered = false;
  #nextId = 1;
  #unanswered = 0;
  #asked = 0;
  #cause: WhetstoneError | undefined;
  #over = false;

  constructor(options: ChildOptions, launched: Launched) {
    this.#options = options;
    this.#launched = launched;
    this.ready = this.#ready.promise;
    this.ended = this.#ended.promise;
    this.ready.catch(() => undefined);
    this.#output = new ChildOutput(options.logger);
    this.#channel = new Channel(launched.channel, {
      take: (batch) => {
        for (const message of batch) this.#take(message);
      },
      broken: (error) => {
        this.#kill(this.#crashed(`sent what is no message: ${error.message}`));
      },
    });
    this.#outbox = new Outbox((batch) => {
      this.#send(batch);
    });
    this.#listen();
    this.#watch();
    this.#outbox.push({ t: "init", data: options.data });
  }

  /** Of the process that we started: it keeps the code's, or is it. */
  get pid(): number | undefined {
    return this.#launched.process.pid;
  }

  /** Which sandbox it is in, to be logged. */
  get level(): Launched["level"] {
    return this.#launched.level;
  }

  get isOver(): boolean {
    return this.#over || this.#cause !== undefined;
  }

  /** Calls in progress. */
  get calls(): number {
    return this.#pending.size;
  }

  call(method: string, payload: unknown, { signal, serve }: ChildCallOptions = {}): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(abortReason(signal));
    if (this.isOver) return Promise.reject(this.#cause ?? this.#crashed("has ended"));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#pending.delete(id);
        this.#outbox.push({ t: "cancel", id });
        reject(abortReason(signal as AbortSignal));
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      const forget = (): void => signal?.removeEventListener("abort", onAbort);
      this.#pending.set(id, { serve, resolve, reject, forget });
      this.#outbox.push({ t: "call", id, method, payload });
    });
  }

  /** Lets it close what it has opened, within three seconds; then it is killed. Resolves when the process is gone. */
  async close(): Promise<void> {
    this.#cause ??= new WhetstoneError("CANCELLED", `the process of ${this.#options.name}'s module was closed`);
    this.#settleAll(this.#cause);
    this.#outbox.push({ t: "close" });
    const timer = setTimeout(() => this.#launched.kill(), CLOSE_MS);
    await this.ended;
    clearTimeout(timer);
    await this.#launched.close();
  }

  /** What cannot be cloned fails its own call, not the others of its batch. */
  #send(batch: ToChild[]): void {
    try {
      this.#channel.send(batch);
    } catch (error) {
      if (batch.length > 1) for (const message of batch) this.#send([message]);
      else if (batch[0]?.t === "call") this.#settle(batch[0].id)?.reject(WhetstoneError.from(error));
      else if (batch[0]?.t === "answer")
        this.#send([{ t: "refused", id: batch[0].id, error: toWire(error, NO_FOLDER) }]);
    }
  }

  #listen(): void {
    const { process: child, stdout, stderr } = this.#launched;
    this.#output.follow(stdout, "stdout");
    this.#output.follow(stderr, "stderr");
    child.once("error", (error) => {
      this.#cause ??= new WhetstoneError("UNAVAILABLE", `no process for ${this.#options.name}: ${error.message}`);
      if (child.pid === undefined) this.#end(this.#cause);
    });
    // "close" comes after the last output, which may hold the reason. Grandchildren may hold the pipes open: not for long.
    child.once("exit", (code, signal) => {
      const timer = setTimeout(() => this.#exited(code, signal), 200);
      child.once("close", () => {
        clearTimeout(timer);
        this.#exited(code, signal);
      });
    });
  }

  #take(message: FromChild): void {
    switch (message.t) {
      case "done":
        this.hasAnswered = true;
        this.#settle(message.id)?.resolve(message.value);
        return;
      case "failed":
        this.#settle(message.id)?.reject(fromWire(message.error));
        return;
      case "ask":
        void this.#answer(message);
        return;
      case "pong":
        this.#unanswered = 0;
        return;
      case "ready":
        this.#ready.resolve();
        return;
      case "broken":
        this.#kill(new EpisodeError("TASK", `the module cannot be loaded: ${fromWire(message.error).message}`));
        return;
      case "dying":
        this.#cause ??= this.#crashed(`ended: ${message.message}`);
    }
  }

  /** @returns after the answer was handed on */
  async #answer({ id, call, method, payload }: Extract<FromChild, { t: "ask" }>): Promise<void> {
    this.#asked += 1;
    try {
      const serve = this.#pending.get(call)?.serve;
      if (serve === undefined)
        throw new WhetstoneError("CANCELLED", `nothing may be asked in the name of call ${call}`);
      if (this.#asked > ASKED_AT_ONCE) throw new WhetstoneError("RESOURCE_EXHAUSTED", "too much is asked at once");
      this.#outbox.push({ t: "answer", id, value: await serve(method, payload) });
    } catch (error) {
      this.#outbox.push({ t: "refused", id, error: toWire(error, NO_FOLDER) });
    } finally {
      this.#asked -= 1;
    }
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.forget();
    return pending;
  }

  /** P2. Beats are counted, not timed: when this process itself is late, it looks for answers before it counts again. */
  #watch(): void {
    const { hangMs, startMs, memoryMiB } = this.#options.limits;
    const every = (ms: number, look: () => void): void => void this.#timers.push(setInterval(look, ms).unref());
    const beat = (): void => {
      if (this.#unanswered > BEATS_PER_HANG) this.#kill(this.#hung(hangMs));
      this.#unanswered += 1;
      this.#outbox.push({ t: "ping" });
    };
    const late = setTimeout(() => this.#kill(this.#hung(startMs)), startMs).unref();
    this.#timers.push(late);
    const onReady = (): void => {
      clearTimeout(late);
      if (!this.#over) every(hangMs / BEATS_PER_HANG, beat);
    };
    this.ready.then(onReady, () => undefined);
    every(MEMORY_EVERY_MS, () => {
      const used = this.pid === undefined ? undefined : residentMiB(this.pid);
      if (used !== undefined && used > memoryMiB) this.#kill(this.#tooLarge(`takes ${Math.round(used)} MiB`));
    });
    if (this.pid !== undefined) offerToKernel(this.pid);
  }

  #kill(cause: WhetstoneError): void {
    this.#cause ??= cause;
    this.#launched.kill();
    this.#settleAll(this.#cause); // What waits is told now, not when the kernel is done.
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#over) return;
    this.#cause ??= this.#endedBy(signal ?? signalOf(code ?? 0) ?? code);
    this.#end(this.#cause);
  }

  /** @param how  a signal's name or an exit code */
  #endedBy(how: string | number | null): WhetstoneError {
    const { lastError, lastLine } = this.#output;
    const ended = (said: string): string =>
      `${typeof how === "number" ? "exit code" : "signal"} ${how}${said === "" ? "" : `: ${said}`}`;
    if (this.#launched.hasRunOutOfMemory()) return this.#tooLarge("has used up its memory");
    if (!this.#launched.hasBegun())
      return new WhetstoneError(
        "UNAVAILABLE",
        `the sandbox of ${this.#options.name} did not start: ${ended(lastLine)}`,
      );
    if (/heap out of memory/.test(lastError)) return this.#tooLarge("has no heap left");
    return this.#crashed(`ended with ${ended(lastError)}`);
  }

  #end(cause: WhetstoneError): void {
    this.#over = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#settleAll(cause);
    this.#launched.channel.destroy();
    void this.#launched.close().finally(() => {
      this.#ended.resolve(cause);
    });
  }

  #settleAll(cause: WhetstoneError): void {
    this.#ready.reject(cause);
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(cause);
  }

  #crashed(what: string): WhetstoneError {
    return new WhetstoneError("MODULE_CRASHED", `the process of ${this.#options.name}'s module ${what}`, {
      context: { died: true },
    });
  }

  #hung(ms: number): WhetstoneError {
    const message = `the process of ${this.#options.name}'s module did not answer for ${ms} ms, as in an endless loop, and was ended`;
    return new WhetstoneError("MODULE_HUNG", message, { context: { died: true } });
  }

  #tooLarge(what: string): WhetstoneError {
    const { name, limits } = this.#options;
    const message = `the process of ${name}'s module ${what}; it may take ${limits.memoryMiB} MiB and was ended`;
    return new WhetstoneError("MODULE_TOO_LARGE", message, { context: { died: true } });
  }
}

/** Whether the whole process ended, and with it all that it did; else only the one call failed. */
export function isProcessDeath(error: unknown): boolean {
  return error instanceof WhetstoneError && error.context["died"] === true;
}

/** Whatever keeps a process gives 128 + n for the signal n that ended it. */
function signalOf(code: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => code === 128 + number)?.[0];
}
