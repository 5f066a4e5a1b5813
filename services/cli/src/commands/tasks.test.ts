// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { FAULTS, SOUND, writeTask } from "@whetstone/harbor/test-support";
import { smallPackages } from "@whetstone/swe/test-support";
import type { FakeTerminal } from "../../test-support/fake-terminal.ts";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

let folder: string;
let terminal: FakeTerminal;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whet-tasks-"));
  terminal = fakeTerminal();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const whet = async (argv: string[], { signal } = new AbortController()): Promise<number> => {
  const environment = { ...process.env, WHETSTONE_PACKAGES: join(folder, "packages") };
  return runCommand(["tasks", ...argv], { terminal, environment, signal, force: signal });
};

describe("whet tasks", () => {
  it.each([
    [["make", "math", "--out", "x"], /there is no kind "math"; there are: swe, search/u],
    [["make", "search", "--out", "x", "--hops", "5"], /--hops: must be a number from 1 to 4/u],
    [["make", "search", "--out", "x", "--pairs", "1"], /--pairs: is of kind swe, not of search/u],
    [["make", "swe", "--out", "x", "--hops", "2"], /--hops: is of kind search, not of swe/u],
    [
      ["make", "swe", "--out", "x", "--language", "cobol"],
      /--language: there is no "cobol"; there are: python, javascript/u,
    ],
    [
      ["make", "swe", "--out", "x", "--libraries", "semver,nosuch"],
      /--libraries: nosuch is not pinned; there are: semver/u,
    ],
    [["make", "swe", "--out", "x", "--pairs", "2"], /--pairs: must be a number from 0 to 1, not "2"/u],
    [["make", "swe", "--out", "x", "--count", "1.5"], /--count: must be a number/u],
    [["make", "swe", "--out", "x", "--pins", "/nowhere"], /--pins: \/nowhere does not exist/u],
    [["verify", "/nowhere.jsonl"], /<path>: \/nowhere\.jsonl does not exist/u],
  ])("%j is refused", async (argv, message) => {
    expect(await whet(argv)).toBe(2);
    expect(terminal.err.join("\n")).toMatch(message);
  });

  it.runIf(canHaveSandboxes)(
    "proves Harbor's task folders by their own solutions, and names what is wrong in one",
    { timeout: 60_000 },
    async () => {
      for (const [name, files] of Object.entries(SOUND)) writeTask(folder, name, files);
      expect(await whet(["verify", folder]), terminal.err.join("\n")).toBe(0);
      expect(terminal.out.at(-1)).toBe("2 of 2 tasks are sound");
      writeTask(folder, "free", { ...SOUND.words, "tests/test.sh": "echo 1 >/logs/verifier/reward.txt" });
      writeTask(folder, "silent", FAULTS.silent);
      writeTask(folder, "unread", { ...SOUND.words, "task.toml": "[agent]\ntimeout_sec = -1\n" });
      expect(await whet(["verify", folder, "--at-once", "2", "--json"])).toBe(1);
      const { tasks, unsound } = terminal.documents.at(-1) as { tasks: number; unsound: { id: string }[] };
      expect(tasks).toBe(5);
      expect(unsound.toSorted((a, b) => a.id.localeCompare(b.id))).toEqual([
        { id: "free", gold: 1, empty: 1 },
        { id: "silent", error: expect.stringMatching(/reward\.txt was not written/u) as string },
        { id: "unread", error: expect.stringMatching(/^unread\/task\.toml: agent\.timeout_sec: /u) as string },
      ]);
      expect(await whet(["verify", join(folder, "words"), "--image", "a"])).toBe(2);
      expect(terminal.err.at(-1)).toMatch(/--image: is of --docker/u);
    },
  );

  it.runIf(canHaveSandboxes)(
    "stops when it is asked to, while a library's tests run",
    { timeout: 60_000 },
    async () => {
      const pins = join(folder, "pins.json");
      writeFileSync(pins, JSON.stringify([smallPackages(join(folder, "packages"))]));
      const stop = new AbortController();
      const made = whet(["make", "swe", "--pins", pins, "--out", join(folder, "out")], stop);
      await waitFor(() => existsSync(join(folder, "out/libraries/tally-1.0.0/state.tar")), { timeoutMs: 30_000 });
      stop.abort();
      expect(await made).toBe(1);
      expect(terminal.err.join("\n")).toMatch(/stopped; the same command goes on with what is missing/u);
    },
  );

  it.runIf(canHaveSandboxes)(
    "makes tasks from packages, goes on where it was, and proves them",
    { timeout: 240_000 },
    async () => {
      const pins = join(folder, "pins.json");
      const pin = smallPackages(join(folder, "packages"));
      writeFileSync(pins, JSON.stringify([pin]));
      const out = join(folder, "out");
      const make = ["make", "swe", "--pins", pins, "--out", out, "--count", "2", "--pairs", "0"];
      expect(await whet(make), terminal.err.join("\n")).toBe(0);
      expect(terminal.out.join("\n")).toMatch(/tally-1\.0\.0: 9 tests pass each time/u);
      const train = readFileSync(join(out, "train.jsonl"), "utf8");
      expect(
        train
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line)),
      ).toMatchObject([
        { id: "tally-1.0.0/0000", source: "tally", payload: { library: "tally-1.0.0", sdist: pin.sdist.sha256 } },
        { id: "tally-1.0.0/0001" },
      ]);
      expect(await whet([...make, "--json"])).toBe(0);
      expect(terminal.documents).toEqual([
        { files: [{ split: "train", path: join(out, "train.jsonl"), tasks: 2, libraries: 1 }] },
      ]);
      expect(readFileSync(join(out, "train.jsonl"), "utf8")).toBe(train);
      expect(await whet(["verify", out, "--sample", "1"])).toBe(0);
      expect(terminal.out.at(-1)).toBe("1 of 1 tasks are sound");
      const wrong = train.replaceAll(/"failToPass":\[[^\]]*\]/gu, '"failToPass":["tests/test_tally.py::test_gone"]');
      writeFileSync(join(out, "wrong.jsonl"), wrong);
      expect(await whet(["verify", join(out, "wrong.jsonl"), "--at-once", "2", "--json"])).toBe(1);
      const unsound = ["0000", "0001"].map((number) => ({ id: `tally-1.0.0/${number}`, gold: 0, empty: 0 }));
      const { tasks, libraries, unsound: found } = terminal.documents.at(-1) as { tasks: 2; libraries: 1; unsound: [] };
      expect({ tasks, libraries }).toEqual({ tasks: 2, libraries: 1 });
      expect(found).toHaveLength(2);
      expect(found).toEqual(expect.arrayContaining(unsound));
    },
  );
});
