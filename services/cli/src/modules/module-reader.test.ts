// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type ReadOptions, readJobModule } from "./module-reader.ts";

function read(text: string, options: ReadOptions = {}) {
  return readJobModule({ code: new TextEncoder().encode(text), folder: "/jobs", path: "job.ts" }, options);
}

describe("reading a job's module", () => {
  it("ends a module with an endless loop at its top level, and says so", async () => {
    await expect(read("for (;;);", { timeoutMs: 2_000 })).rejects.toMatchObject({
      exitCode: 2,
      violations: [
        { path: "job.ts", reason: expect.stringMatching(/not finish loading within 2 s.*endless loop/) as string },
      ],
    });
  });

  it("can be interrupted while the module loops", async () => {
    const interrupt = new AbortController();
    const reading = read("for (;;);", { signal: interrupt.signal });
    setTimeout(() => interrupt.abort(new Error("interrupted")), 500);
    await expect(reading).rejects.toThrow("interrupted");
  });

  it("does not end with a module that ends its process, and says so", async () => {
    await expect(read("process.exit(0);")).rejects.toMatchObject({
      exitCode: 2,
      violations: [{ path: "job.ts", reason: expect.stringContaining("ended its process with code 0") as string }],
    });
  });

  it("gives the job, or the line of what the module throws", async () => {
    const job =
      'import { defineJob } from "@whetstone/sdk"; export default defineJob({ name: "j", agent: "math", environment: "math", loop: { steps: 0 } });';
    expect(await read(job)).toMatchObject({ document: { name: "j" }, hasOwn: false });
    await expect(read("\nnull.x;")).rejects.toMatchObject({
      exitCode: 2,
      violations: [{ reason: expect.any(String) as string }],
    });
    await expect(read("export const x = 1;")).rejects.toThrow("exports no job");
  });
});
