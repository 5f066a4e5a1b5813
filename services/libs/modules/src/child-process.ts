// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { abortReason, dieWithUs, WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import type { Logger } from "@whetstone/telemetry";
import { ChildOutput } from "./child-output.ts";
import { offerToKernel, residentMiB } from "./memory.ts";
import { type FromChild, Outbox, type ToChild } from "./wire.ts";
import { fromWire } from "./wire-error.ts";

// P1: every call is settled: by its answer, its signal, or the process's end. P2: a process that does not answer, or takes more
// memory than it may, is killed. P3: it gets none of our environment but a few harmless names. P4: it ends with us, whatever ends us.

export interface ChildLimits {
  /** Resident memory in MiB beyond which it is killed (looked at four times a second, Linux only). Its heap gets three quarters. */
  readonly memoryMiB: number;
  /** Without an answer for this long it counts as hanging, milliseconds. */
  readonly hangMs: number;
  /** How long loading the module may take, milliseconds. */
  readonly startMs: number;
}

export const DEFAULT_LIMITS: ChildLimits = { memoryMiB: 2048, hangMs: 10_000, startMs: 60_000 };

export interface ChildOptions {
  /** The program: a module that calls `serveChild`. */
  readonly entry: URL;
  /** Whose code it runs, for messages: "job fl-1". */
  readonly name: string;
  /** What the program's `init` gets. Structured clone. */
  readonly data: unknown;
  readonly limits: ChildLimits;
  /** Bound to the job. */
  readonly logger: Logger;
  /** Hears of every process that ended by itself or was killed for what it did. */
  readonly onEnd?: ((cause: WhetstoneError) => void) | undefined;
}

export interface ChildCallOptions {
  /** Rejects the call at once, and tells the child. */
  readonly signal?: AbortSignal | undefined;
}

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly forget: () => void;
}

const BEATS_PER_HANG = 10;
const MEMORY_EVERY_MS = 250;
const CLOSE_MS = 3_000;

/** One child process from its start to its end. */
export class Child {
  /** Resolves when the module is loaded; rejects with a TASK failure when it cannot be, or with what ended the process. */
  readonly ready: Promise<void>;
  /** Resolves with what ended it. */
  readonly ended: Promise<WhetstoneError>;
  readonly #options: ChildOptions;
  readonly #process: ChildProcess;
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
  #cause: WhetstoneError | undefined;
  #over = false;

  constructor(options: ChildOptions) {
    this.#options = options;
    this.ready = this.#ready.promise;
    this.ended = this.#ended.promise;
    this.ready.catch(() => undefined);
    this.#output = new ChildOutput(options.logger);
    this.#process = launch(options);
    this.#outbox = new Outbox((batch) => {
      this.#send(batch);
    });
    this.#listen();
    this.#watch();
    this.#outbox.push({ t: "init", data: options.data });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get isOver(): boolean {
    return this.#over || this.#cause !== undefined;
  }

  /** Calls in progress. */
  get calls(): number {
    return this.#pending.size;
  }

  call(method: string, payload: unknown, { signal }: ChildCallOptions = {}): Promise<unknown> {
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
      this.#pending.set(id, { resolve, reject, forget });
      this.#outbox.push({ t: "call", id, method, payload });
    });
  }

  /** Lets it close what it has opened, within three seconds; then it is killed. Resolves when the process is gone. */
  async close(): Promise<void> {
    this.#cause ??= new WhetstoneError("CANCELLED", `the process of ${this.#options.name}'s module was closed`);
    this.#settleAll(this.#cause);
    this.#outbox.push({ t: "close" });
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), CLOSE_MS);
    await this.ended;
    clearTimeout(timer);
  }

  /** What cannot be cloned fails its own call, not the others of its batch. */
  #send(batch: ToChild[]): void {
    if (!this.#process.connected) return;
    try {
      this.#process.send(batch, () => undefined);
    } catch (error) {
      if (batch.length > 1) for (const message of batch) this.#send([message]);
      else if (batch[0]?.t === "call") this.#settle(batch[0].id)?.reject(WhetstoneError.from(error));
    }
  }

  #listen(): void {
    const child = this.#process;
    if (child.stdout) this.#output.follow(child.stdout, "stdout");
    if (child.stderr) this.#output.follow(child.stderr, "stderr");
    child.on("message", (batch: FromChild[]) => {
      for (const message of batch) this.#take(message);
    });
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
    this.#process.kill("SIGKILL");
    this.#settleAll(this.#cause); // What waits is told now, not when the kernel is done.
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#over) return;
    const { lastError } = this.#output;
    const said = lastError === "" ? "" : `: ${lastError}`;
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
    if (/heap out of memory/.test(lastError)) this.#cause ??= this.#tooLarge("has no heap left");
    this.#end((this.#cause ??= this.#crashed(`ended with ${how}${said}`)));
  }

  #end(cause: WhetstoneError): void {
    this.#over = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#settleAll(cause);
    this.#ended.resolve(cause);
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

function launch({ entry, limits }: ChildOptions): ChildProcess {
  // P4: by disconnect; a child in an endless loop sees no disconnect.
  const [command, ...args] = dieWithUs(
    "KILL",
    process.execPath,
    `--max-old-space-size=${Math.round(limits.memoryMiB * 0.75)}`,
    "--disable-warning=ExperimentalWarning",
    fileURLToPath(entry),
  );
  return spawn(command, args, {
    env: childEnvironment(),
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    serialization: "advanced",
  });
}

const PASSED_ON = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "SYSTEMROOT"];

/** P3. The SDK must know that it is only being played here. */
function childEnvironment(): NodeJS.ProcessEnv {
  const passed = PASSED_ON.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []));
  return { ...(Object.fromEntries(passed) as NodeJS.ProcessEnv), WHETSTONE_MODULE_HOST: "1" };
}
