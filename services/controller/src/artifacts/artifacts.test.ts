// SPDX-License-Identifier: Apache-2.0
// Which files stay, and which go, when names and jobs come and go.
import { existsSync, mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Artifacts } from "./artifacts.ts";
import { writeJson } from "./layout.ts";

const [ONE, TWO] = ["11".repeat(32), "22".repeat(32)];
let data: string;
let artifacts: Artifacts;
/** Digest → jobs. */
const uses = new Map<string, string[]>();

beforeEach(async () => {
  uses.clear();
  data = mkdtempSync(join(tmpdir(), "whetstone-names-"));
  artifacts = new Artifacts(data, () => Promise.resolve(uses));
  for (const digest of [ONE, TWO]) await store(digest);
});
afterEach(() => rmSync(data, { recursive: true, force: true }));

const manifestOf = (digest: string): string => join(artifacts.layout.content(digest), "manifest.json");
async function store(digest: string): Promise<void> {
  await writeJson(manifestOf(digest), { files: [{ path: "a", size: 9, sha256: digest }] });
}
function makeOld(digest: string): void {
  const old = Date.now() / 1000 - 25 * 3600;
  utimesSync(manifestOf(digest), old, old);
}
const isThere = (digest: string): boolean => existsSync(artifacts.layout.content(digest));
const name = (text: string, digest: string, replace = false) => artifacts.setName("tasks", text, digest, replace);

describe("files", () => {
  it("go with their last name, unless a job has them", async () => {
    await name("t", ONE);
    await name("other", ONE);
    expect(await artifacts.remove("tasks", "t")).toEqual({ digest: ONE, freed: 0, jobs: [] });
    uses.set(ONE, ["lake"]);
    expect(await artifacts.remove("tasks", "other")).toEqual({ digest: ONE, freed: 0, jobs: ["lake"] });
    expect(isThere(ONE)).toBe(true);
    uses.clear();
    expect(await artifacts.collect(ONE)).toEqual({ freed: 9, jobs: [] });
    expect(isThere(ONE)).toBe(false);
    await expect(artifacts.remove("tasks", "t")).rejects.toThrow(/"t" was not pushed to tasks; there are: none/);
  });

  it("go when their name gets others, if it may", async () => {
    await name("t", ONE);
    await name("t", ONE);
    await name("t", TWO, true);
    expect([isThere(ONE), isThere(TWO)]).toEqual([false, true]);
    await store(ONE);
    await expect(name("t", ONE)).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
    expect([isThere(ONE), (await artifacts.get("tasks", "t")).digest]).toEqual([false, TWO]);
  });

  it("without a name or a job are swept after a day", async () => {
    await artifacts.sweep();
    expect([isThere(ONE), isThere(TWO)]).toEqual([true, true]);
    for (const digest of [ONE, TWO]) makeOld(digest);
    await name("t", TWO);
    uses.set(ONE, ["lake"]);
    await artifacts.sweep();
    expect([isThere(ONE), isThere(TWO)]).toEqual([true, true]);
    uses.clear();
    await artifacts.sweep();
    expect([isThere(ONE), isThere(TWO)]).toEqual([false, true]);
  });
});
