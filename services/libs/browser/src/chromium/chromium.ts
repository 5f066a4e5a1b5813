// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import { raceSignal, sleep, WhetstoneError, withTimeout } from "@whetstone/core";
import type { ProcessBackend, SocketFolder } from "@whetstone/sandbox";
import { type Browser, chromium, type CDPSession } from "playwright-core";
import { PipeTransport } from "./pipe-transport.ts";
import { type ChromiumProcess, launchHere, launchInSandbox } from "./process.ts";
import { Reach } from "./reach.ts";

export interface ChromiumOptions {
  readonly executable: string;
  readonly memoryMiB: number;
  readonly startTimeoutMs: number;
  /** Where it is kept. Undefined: on the machine itself, without a sandbox. */
  readonly backend: ProcessBackend | undefined;
}

/** It answers whatever its pages do: this is asked of its own process. */
const ALIVE_MS = 5_000;
const CLOSE_MS = 3_000;
const MAX_SAID = 2_000;
/** What Chromium says of every start. */
const NOISE = /dbus|drmGetDevices2|udev|NETLINK|InitializeSandbox|config file|bluez|^\s*$/u;

/** One Chromium, for many episodes. */
export class Chromium implements AsyncDisposable {
  readonly browser: Browser;
  /** What its pages may connect to. */
  readonly reach: Reach;
  readonly #process: ChromiumProcess;
  readonly #session: CDPSession;
  readonly #words: LastWords;
  readonly #ended = new AbortController();
  #closing: Promise<void> | undefined;

  private constructor(own: Own) {
    this.browser = own.browser;
    this.reach = own.reach;
    this.#process = own.process;
    this.#session = own.session;
    this.#words = own.words;
    own.browser.once("disconnected", () => void this.#notice());
    void own.process.result.then(() => this.#notice());
  }

  /** @throws SandboxError, or what went wrong with Chromium; nothing is left then */
  static async start(options: ChromiumOptions): Promise<Chromium> {
    const { backend, startTimeoutMs } = options;
    await using undo = new AsyncDisposableStack();
    const folder: SocketFolder | undefined = backend?.makeFolder();
    if (folder !== undefined) undo.use(folder);
    const launch = { ...options, sockets: folder?.path ?? "" };
    const process = backend === undefined ? await launchHere(launch) : await launchInSandbox(backend, launch);
    undo.defer(() => process.close());
    const transport = new PipeTransport(process.channel);
    undo.defer(() => transport.close());
    const words = new LastWords(process.stderr);
    const gone = process.result.then(() => {
      throw new WhetstoneError("UNAVAILABLE", `Chromium ended at once; ${words.text}`);
    });
    gone.catch(() => undefined);
    const browser = await Promise.race([connect(transport, startTimeoutMs), gone]).catch(async (error: unknown) => {
      // Its pipe may be closed before its end is known, which says more.
      await Promise.race([gone, sleep(LAST_WORDS_MS)]);
      throw error;
    });
    const session = await browser.newBrowserCDPSession();
    const reach = new Reach(process.sandbox, folder);
    undo.move();
    return new Chromium({ browser, session, process, reach, words });
  }

  /** Aborts when it has ended, with what is known of that. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether its own process answers. */
  async isAlive(): Promise<boolean> {
    if (this.#ended.signal.aborted) return false;
    try {
      await withTimeout(() => this.#session.send("Browser.getVersion"), { timeoutMs: ALIVE_MS });
      return true;
    } catch {
      return false;
    }
  }

  /** @param why  is told to whoever used it */
  kill(why: string): void {
    this.#end(why);
    this.#process.kill();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#end("it was closed");
    const closing = this.browser.close().catch(() => undefined);
    await Promise.race([closing, this.#process.result, sleep(CLOSE_MS)]);
    this.#process.kill();
    await this.#process.close();
    await this.reach[Symbol.asyncDispose]();
  }

  /** Its last words may still be in the pipe. */
  async #notice(): Promise<void> {
    if (this.#ended.signal.aborted) return;
    await Promise.race([this.#process.result, sleep(LAST_WORDS_MS)]);
    const outOfMemory = this.#process.sandbox?.hasRunOutOfMemory === true ? "its memory was used up; " : "";
    this.#end(`it ended by itself; ${outOfMemory}${this.#words.text}`);
  }

  #end(why: string): void {
    if (!this.#ended.signal.aborted) this.#ended.abort(new WhetstoneError("UNAVAILABLE", why));
  }
}

interface Own {
  readonly browser: Browser;
  readonly session: CDPSession;
  readonly process: ChromiumProcess;
  readonly reach: Reach;
  readonly words: LastWords;
}

/** What Chromium said last on stderr, without what it says of every start. */
class LastWords {
  #said = "";

  constructor(stderr: Readable) {
    stderr.on("data", (data: Buffer) => {
      const lines = data.toString("utf8").split("\n");
      const told = lines.filter((line) => !NOISE.test(line)).join("\n");
      this.#said = `${this.#said}\n${told}`.slice(-MAX_SAID);
    });
  }

  get text(): string {
    return this.#said.trim() || "it said nothing";
  }
}

const LAST_WORDS_MS = 200;

async function connect(transport: PipeTransport, timeoutMs: number): Promise<Browser> {
  const deadline = AbortSignal.timeout(timeoutMs);
  return await raceSignal(chromium.connectOverCDP(transport, { timeout: timeoutMs }), deadline);
}
