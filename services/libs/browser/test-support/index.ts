// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ProcessBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { findChromium } from "../src/chromium/executable.ts";
import { BrowserPool, type BrowserPoolOptions } from "../src/pool/browser-pool.ts";

export { ORACLES } from "./oracles/index.ts";
export { playOracle } from "./oracles/play-oracle.ts";

const ROOT = join(import.meta.dirname, "../../../..");

/** There is a Chromium, and a sandbox to keep it in. */
export const canHaveBrowsers = findChromium() !== undefined && canHaveSandboxes;

/** Where MiniWoB++ is installed in this checkout: by the command that users call, once. */
export function miniwobFolder(): string {
  const data = join(ROOT, ".whetstone");
  const folder = join(data, "miniwob");
  if (!existsSync(join(folder, "miniwob"))) {
    const main = join(ROOT, "services/cli/src/main.ts");
    execFileSync(process.execPath, [main, "setup", "--miniwob", "--data", data], { timeout: 300_000 });
  }
  return folder;
}

export interface TestPool extends AsyncDisposable {
  readonly pool: BrowserPool;
}

/** Browsers in sandboxes, or without where that guard is taken away. */
export async function startTestPool(options: Partial<BrowserPoolOptions> = {}): Promise<TestPool> {
  await using opening = new AsyncDisposableStack();
  const backend = options.without?.has("sandbox") ? undefined : opening.use(await ProcessBackend.start());
  const executable = findChromium() ?? "";
  const pool = new BrowserPool({
    chromium: async () => ({ executable, memoryMiB: 4096, startTimeoutMs: 60_000, backend }),
    maxBrowsers: 1,
    contextsPerBrowser: 8,
    recycleAfter: 1000,
    leaseMs: 600_000,
    idleMs: 600_000,
    ...options,
  });
  opening.use(pool);
  const opened = opening.move();
  return { pool, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
