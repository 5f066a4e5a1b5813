// SPDX-License-Identifier: Apache-2.0
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";

import { lineTerminal } from "../terminal/line-terminal.ts";
import { runCommand } from "../run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "whet-retrain-"));
const python = join(folder, "python");
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void delete process.env["WHETSTONE_PYTHON"]);

/** A trainer that says this and ends with this; python-trainer/tests/trainer/test_retrain.py has the real one. */
async function retrain(says: string, code: number, ...args: string[]) {
  writeFileSync(python, `#!/bin/sh\necho "$@" > ${folder}/args\n${says}\nexit ${code}\n`);
  chmodSync(python, 0o755);
  process.env["WHETSTONE_PYTHON"] = python;
  const lines: string[] = [];
  const never = new AbortController().signal;
  const environment = { WHETSTONE_NATS_URL: "nats://here", WHETSTONE_DATA: "/data" };
  const context = { terminal: lineTerminal((line) => lines.push(line)), environment, signal: never, force: never };
  const exitCode = await runCommand(["jobs", "retrain", "lake", "--from", "2", "--to", "4", ...args], context);
  return { exitCode, lines, asked: readFileSync(join(folder, "args"), "utf8").trim() };
}

const answer = (published: string, same: boolean): string =>
  `echo '{"job":"lake","from":2,"same":${same},"versions":[{"version":3,"published":null,"retrained":"aa"},{"version":4,"published":"${published}","retrained":"bb"}]}'`;

describe("whet jobs retrain", () => {
  it("says of each version whether it is the published one", async () => {
    const { exitCode, lines, asked } = await retrain(answer("bb", true), 0);
    expect([exitCode, lines]).toEqual([0, ["v3  aa  the published one is gone", "v4  bb  the same"]]);
    expect(asked).toBe(
      "-m whetstone_trainer.retrain lake --from 2 --to 4 --nats nats://here --runs /data/runs --threads 1 --dtype float32 --backend local --ranks 1",
    );
  });

  it("ends with 1 when one differs", async () => {
    const { exitCode, lines } = await retrain(answer("cc", false), 1, "--trainer-threads", "2");
    expect([exitCode, lines.at(-1)]).toEqual([1, "v4  bb  differs from cc"]);
  });

  it("ends with 2 when it cannot be done, and says why", async () => {
    const says = `echo '{"error":{"field":"--from","reason":"there is no checkpoint of 2 steps"}}' >&2`;
    const { exitCode } = await retrain(says, 2);
    expect(exitCode).toBe(2);
  });
});
