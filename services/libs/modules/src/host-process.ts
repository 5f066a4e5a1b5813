// SPDX-License-Identifier: Apache-2.0
import { abortReason, raceSignal, sleep, WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import { Child, type ChildCallOptions, type ChildOptions } from "./child-process.ts";
import { launch } from "./launch.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1_000;
/** Starts in a row that end before the module is loaded; then it is the module's fault, not the machine's. */
const STARTS = 3;
/** For a while: a machine without memory left starts nothing. */
const TRY_AGAIN_MS = 30_000;

/** A child process that is started at the first call, and anew at the first call after its end. */
export class HostProcess {
  readonly #options: ChildOptions;
  #child: Child | undefined;
  #starting: Promise<Child> | undefined;
  /** Ends in a row without a good answer between them. */
  #ends = 0;
  #failedStarts = 0;
  /** Why the module cannot be loaded, once that is known, and until when nobody tries again. */
  #broken: { readonly error: WhetstoneError; readonly untilMs: number } | undefined;
  readonly #closing = new AbortController();

  constructor(options: ChildOptions) {
    this.#options = options;
  }

  /** Of the process that runs now. */
  get pid(): number | undefined {
    return this.#child?.isOver === false ? this.#child.pid : undefined;
  }

  /**
   * @throws what the method threw; MODULE_CRASHED, MODULE_HUNG or MODULE_TOO_LARGE when the process ended meanwhile; a TASK
   *   failure when the module cannot be loaded; the signal's reason
   */
  async call(method: string, payload: unknown, options: ChildCallOptions = {}): Promise<unknown> {
    return (await this.running(options.signal)).call(method, payload, options);
  }

  /** The process that runs now, for whoever needs the same one from call to call: what has ended answers nothing any more. */
  running(signal?: AbortSignal): Child | Promise<Child> {
    return this.#child?.isOver === false ? this.#child : this.#started(signal);
  }

  /** Ends the process, if there is one, and every call. */
  async close(): Promise<void> {
    this.#closing.abort(new WhetstoneError("CANCELLED", `the process of ${this.#options.name}'s module is closed`));
    const starting = await this.#starting?.catch(() => undefined);
    await Promise.all([this.#child?.close(), starting?.close()]);
  }

  #started(signal: AbortSignal | undefined): Promise<Child> {
    if (signal?.aborted) return Promise.reject(abortReason(signal));
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return raceSignal(this.#starting, signal);
  }

  async #start(): Promise<Child> {
    if (this.#broken !== undefined && performance.now() < this.#broken.untilMs) throw this.#broken.error;
    this.#closing.signal.throwIfAborted();
    if (this.#ends > 0) {
      await sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#ends - 1)), this.#closing.signal);
    }
    const isolation = await this.#options.isolation();
    const child = new Child(this.#options, await launch({ ...this.#options, isolation }));
    void child.ended.then((cause) => this.#onEnd(child, cause));
    try {
      await raceSignal(child.ready, this.#closing.signal);
    } catch (error) {
      await child.close();
      throw this.#notLoaded(error);
    }
    this.#failedStarts = 0;
    this.#child = child;
    this.#options.logger.debug("module_process_started", { pid: child.pid, sandbox: child.level });
    return child;
  }

  #onEnd({ hasAnswered }: Child, cause: WhetstoneError): void {
    if (cause.code === "CANCELLED") return;
    this.#ends = hasAnswered ? 1 : this.#ends + 1;
    this.#options.onEnd?.(cause);
    this.#options.logger.warn("module_process_ended", { code: cause.code, reason: cause.message });
  }

  /** What the module itself threw will be thrown again; that its process ended may have been the machine's fault. */
  #notLoaded(error: unknown): unknown {
    if (error instanceof EpisodeError) return this.#breaks(error, Number.POSITIVE_INFINITY);
    if (WhetstoneError.from(error).code === "UNAVAILABLE") return error; // Ours: no sandbox, no process.
    this.#failedStarts += 1;
    if (this.#failedStarts < STARTS || this.#closing.signal.aborted) return error;
    const reason = `the module cannot be loaded: ${WhetstoneError.from(error).message}, ${this.#failedStarts} times in a row`;
    return this.#breaks(new EpisodeError("TASK", reason, { cause: error }), performance.now() + TRY_AGAIN_MS);
  }

  #breaks(error: WhetstoneError, untilMs: number): WhetstoneError {
    this.#broken = { error, untilMs };
    return error;
  }
}
