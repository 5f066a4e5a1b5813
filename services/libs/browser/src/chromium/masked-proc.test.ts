// SPDX-License-Identifier: Apache-2.0
// Chromium in a container whose /proc is masked, as a pod's is: it does not run without one.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { canHaveSandboxes } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { findChromium } from "./executable.ts";

const executable = findChromium();
const PROGRAM = `
  import { ProcessBackend } from "@whetstone/sandbox";
  import { Chromium } from "${join(import.meta.dirname, "chromium.ts")}";
  await using backend = await ProcessBackend.start();
  const start = (executable) => Chromium.start({ executable, memoryMiB: 1024, startTimeoutMs: 30_000, backend });
  await using chromium = await start("${executable}");
  const page = await chromium.browser.newPage();
  await page.setContent("<p>drawn</p>");
  const failed = await start("/usr/bin/env").catch((error) => error.message);
  console.log(JSON.stringify({ text: await page.textContent("p"), failed }));
`;
const MASKED = ["--mount", "sh", "-c", 'mount --bind /dev/null /proc/meminfo && exec "$@"', "sh"];

it.runIf(canHaveSandboxes && process.getuid?.() === 0 && executable !== undefined)(
  "draws a page, and what ends at once says why",
  () => {
    const node = [process.execPath, "--input-type=module", "--eval", PROGRAM];
    const options = { cwd: import.meta.dirname, encoding: "utf8", timeout: 60_000 } as const;
    const { stdout, stderr } = spawnSync("unshare", [...MASKED, ...node], options);
    if (stdout === "") throw new Error(stderr);
    const { text, failed } = JSON.parse(stdout) as { text: string; failed: string };
    expect(text).toBe("drawn");
    expect(failed).toMatch(/^Chromium ended at once; .*unrecognized option/u);
  },
  70_000,
);
