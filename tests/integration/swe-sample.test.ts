// SPDX-License-Identifier: Apache-2.0
// Some of the tasks that come with the project, graded: their repair is worth 1, and nothing at all 0.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { canHaveSandboxes } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { runWhet } from "../support/whet.ts";

const FOLDER = join(import.meta.dirname, "../../examples/swe/tasks");
/** How many: none on an ordinary run, since their packages have to be downloaded. `make tasks-verify` grades all. */
const SAMPLE = process.env["WHETSTONE_TASKS_SAMPLE"] ?? "0";

describe.runIf(canHaveSandboxes && SAMPLE !== "0")("a sample of the tasks of repairing libraries", () => {
  it("is sound: others every day", { timeout: 900_000 }, () => {
    const folders = readdirSync(join(FOLDER, "libraries"));
    // Of these alone: more libraries are known, and tasks of them would be made.
    const libraries = folders.map((name) => name.replace(/-[^-]*$/u, "")).join(",");
    expect(runWhet("tasks", "make", "swe", "--out", FOLDER, "--libraries", libraries)).toMatchObject({ status: 0 });
    expect(folders.filter((name) => !existsSync(join(FOLDER, "libraries", name, "state.tar")))).toEqual([]);
    const seed = String(Math.floor(Date.now() / 86_400_000));
    const args = ["--sample", SAMPLE, "--seed", seed, "--at-once", "2", "--json"];
    const { json } = runWhet("tasks", "verify", FOLDER, ...args);
    expect(json).toMatchObject({ tasks: Number(SAMPLE), unsound: [] });
  });
});
