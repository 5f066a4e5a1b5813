// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { BrowserPool, type ChromiumOptions, findChromium, HOW_TO_INSTALL, Miniwob } from "@whetstone/browser";
import { ProcessBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import type { EnvRunnerConfig } from "../config.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

type BrowserSettings = Pick<
  EnvRunnerConfig,
  | "browserPath"
  | "browsers"
  | "browserContexts"
  | "browserMemoryMib"
  | "browserSandbox"
  | "miniwobPath"
  | "sessionTimeoutMs"
>;

/** Episodes that a browser has before another takes its place. */
const RECYCLE_AFTER = 500;
const IDLE_MS = 300_000;
const START_MS = 60_000;
/** Who comes while all pages are in use gets the next ones in turn, for so long. Then it is refused, and waits at home. */
const WAIT_MS = 2_000;

/** The browsers of this process's environments, and the pages that it has itself. The first is started when one is needed. */
export class Browsers implements AsyncDisposable {
  readonly pool: BrowserPool;
  readonly #sandboxes: Sandboxes;
  readonly #settings: BrowserSettings;
  #miniwob: Miniwob | undefined;

  constructor(sandboxes: Sandboxes, settings: BrowserSettings) {
    this.#sandboxes = sandboxes;
    this.#settings = settings;
    this.pool = new BrowserPool({
      chromium: () => this.#chromium(),
      maxBrowsers: settings.browsers,
      contextsPerBrowser: settings.browserContexts,
      recycleAfter: RECYCLE_AFTER,
      leaseMs: settings.sessionTimeoutMs,
      idleMs: IDLE_MS,
      waitMs: WAIT_MS,
    });
  }

  /** Why there is no browser here. Undefined: there is one. */
  get missing(): string | undefined {
    const path = this.#path;
    if (path === undefined) return `this env-runner has no Chromium: ${HOW_TO_INSTALL}`;
    return existsSync(path) ? undefined : `there is no Chromium at ${path}: ${HOW_TO_INSTALL}`;
  }

  /** MiniWoB++, or why it is not here. */
  get miniwob(): Miniwob | string {
    const { miniwobPath } = this.#settings;
    if (miniwobPath === undefined) return "this env-runner has no MiniWoB++: name its folder in WHETSTONE_MINIWOB_PATH";
    this.#miniwob ??= Miniwob.in(miniwobPath);
    return this.#miniwob ?? `MiniWoB++ is not installed in ${miniwobPath}: run \`whet setup --miniwob\``;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool[Symbol.asyncDispose]();
  }

  get #path(): string | undefined {
    return this.#settings.browserPath ?? findChromium();
  }

  async #chromium(): Promise<ChromiumOptions> {
    const { browserMemoryMib: memoryMiB, browserSandbox } = this.#settings;
    const options = { executable: this.#path ?? "", memoryMiB, startTimeoutMs: START_MS };
    if (browserSandbox === "none") return { ...options, backend: undefined };
    const backend = await this.#sandboxes.backend({ sandbox: { backend: "process", network: [] } });
    if (backend instanceof ProcessBackend && backend.level !== "C") return { ...options, backend };
    const message =
      "a browser needs a sandbox of level A or B on the env-runner's own machine (docs/browser.md); WHETSTONE_BROWSER_SANDBOX=none does without";
    throw new EpisodeError("INFRASTRUCTURE", message, { code: "FAILED_PRECONDITION" });
  }
}
