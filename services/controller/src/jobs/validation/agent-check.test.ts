// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { ofModule } from "./agent-check.ts";

const MODULE = { digest: "d", code: new Uint8Array() };

describe("what a service says of a job's module", () => {
  it.each([
    ["FAILED_PRECONDITION", "module.sandbox", /no sandbox can be had here; level B: .*backend: none/],
    ["TASK_INVALID", "module", /^no sandbox can be had here/],
  ] as const)("is refused by name: %s", async (code, path, reason) => {
    const look = () => Promise.reject(new WhetstoneError(code, "no sandbox can be had here; level B: no bubblewrap"));
    const violation = { path, reason: expect.stringMatching(reason) as string };
    expect(await ofModule(MODULE, look)).toMatchObject({ violation });
  });

  it("is not the job's fault where the service cannot be reached", async () => {
    const look = () => Promise.reject(new WhetstoneError("UNAVAILABLE", "away"));
    await expect(ofModule(MODULE, look)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});
