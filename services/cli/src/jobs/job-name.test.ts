// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

import { jobName } from "./job-name.ts";

describe("jobName", () => {
  it("is the file's name with a digest of what the job says", () => {
    const name = jobName("src/My job.ts", { loop: { steps: 3 } });
    expect(name).toMatch(/^my-job-[0-9a-f]{8}$/);
    expect(jobName("other/My job.ts", { loop: { steps: 3 } })).toBe(name);
    expect(jobName("src/My job.ts", { loop: { steps: 4 } })).not.toBe(name);
  });

  it("is a DNS label of at most 52 characters, whatever the file is called", () => {
    for (const file of ["_.ts", "ünïcode.ts", `${"a-".repeat(60)}.ts`, ""])
      expect(jobName(file, {})).toMatch(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])$/);
  });
});
