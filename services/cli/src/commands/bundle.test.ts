// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { expect, it } from "vitest";

import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

it("whet bundle push sends one bundled module, and prints its digest alone", async () => {
  const folder = mkdtempSync(join(tmpdir(), "whet-bundle-"));
  const terminal = fakeTerminal();
  const pushed: string[] = [];
  const service = implement(JobService, {
    pushModule: ({ moduleCode }) => {
      pushed.push(Buffer.from(moduleCode).toString());
      return { digest: createHash("sha256").update(moduleCode).digest("hex") };
    },
  });
  await using server = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
  writeFileSync(join(folder, "answer.ts"), "export const answer: number = 42;\n");
  writeFileSync(join(folder, "module.ts"), 'import { answer } from "./answer.ts";\nexport const twice = answer * 2;\n');
  const { signal } = new AbortController();
  const context = { terminal, environment: { WHETSTONE_ENDPOINT: server.address }, signal, force: signal };
  expect(await runCommand(["bundle", "push", join(folder, "module.ts")], context)).toBe(0);
  expect(pushed[0]).toContain("42"); // What it imports is in it.
  expect(terminal.out).toEqual([
    createHash("sha256")
      .update(pushed[0] ?? "")
      .digest("hex"),
  ]);
  expect(await runCommand(["bundle", "push", join(folder, "none.ts")], context)).not.toBe(0);
  rmSync(folder, { recursive: true });
});
