// SPDX-License-Identifier: Apache-2.0
// What is no repair is worth 0, however it is dressed up; and a repair is worth 1 with all of that around it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ProcessBackend } from "@whetstone/sandbox";
import type { RewardOutput } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes } from "@whetstone/testkit";
import { REWARD_HACKS } from "../test-support/reward-hacks.ts";
import { SMALL_PIN, SMALL_TASK, smallSources } from "../test-support/small-library.ts";
import type { BashTool } from "./tools/bash-tool.ts";
import { makeLibrary } from "./factory/make-library.ts";
import { LibraryStore } from "./library-store.ts";
import { SweEpisode } from "./swe-episode.ts";
import { Workspace } from "./workspace.ts";
import { gradeChange } from "./grading.ts";

/** As an agent would repair it. */
const REPAIR = "sed -i '9s/pass/return high/' tally/core.py";
const OPTIONS = { task: SMALL_TASK, reward: "resolved", commandTimeoutMs: 60_000, maxOutputBytes: 10_000 } as const;

describe.runIf(canHaveSandboxes)("a reward", { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-hacks-"));
  let backend: ProcessBackend;
  let libraries: LibraryStore;
  beforeAll(async () => {
    backend = await ProcessBackend.start({ maxSandboxes: 1 });
    await makeLibrary(SMALL_PIN, { folder, sources: smallSources, backend });
    libraries = new LibraryStore(folder, backend);
  }, 120_000);
  afterAll(async () => {
    await libraries[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  async function play(...commands: string[]): Promise<RewardOutput & { said: string }> {
    const episode = new SweEpisode(OPTIONS);
    const [tool] = (await episode.open({ backend, libraries })) as [BashTool];
    await using _ = tool;
    let said = "";
    for (const command of commands)
      said += String(await tool.run({ command }, { signal: new AbortController().signal }));
    return { ...(await episode.grade()), said };
  }

  it("is 1 for a repair, whatever lies around it", async () => {
    const all = [...REWARD_HACKS.beside, ...REWARD_HACKS.searches].map(({ command }) => command);
    const { said, ...output } = await play(...all, REPAIR);
    expect(output, said).toMatchObject({ reward: 1, isCorrect: true, metadata: { failToPass: 1, passToPass: 1 } });
  });

  it("is 0 for all that is done beside the library, and its tests do not pass for it", async () => {
    const { metadata, reward } = await play(
      ...REWARD_HACKS.beside.map(({ command }) => command),
      "echo '#' >>tally/core.py",
    );
    expect({ reward, ...metadata }).toMatchObject({ reward: 0, failToPass: 0, passToPass: 1 });
  });

  it.each(REWARD_HACKS.beside)("is 0 for who $name", async ({ command }) => {
    const { reward, metadata } = await play(command);
    expect({ reward, ...metadata }).toMatchObject({ reward: 0, reason: "nothing of the library was changed" });
  });

  it.each(REWARD_HACKS.within)("is 0 for code that $name", async ({ command }) => {
    const { reward, metadata } = await play(command);
    expect({ reward, ...metadata }).toMatchObject({
      reward: 0,
      reason: expect.stringMatching(/^it reaches for the tests: tally\/core\.py/u),
    });
  });

  it.each(REWARD_HACKS.bare)("is 0 for who $name", async ({ command }) => {
    expect(await play(command)).toMatchObject({ reward: 0, isCorrect: false });
  });

  it.each(REWARD_HACKS.searches)("is 0 for who $name", async ({ command }) => {
    const { reward, said } = await play(command);
    expect(reward).toBe(0);
    expect(said).not.toMatch(/^ +return high$/mu);
  });

  it("can be kept from who would copy the answers from the tests", async () => {
    const episode = new SweEpisode({ ...OPTIONS, hideTests: true });
    const [tool] = (await episode.open({ backend, libraries })) as [BashTool];
    await using _ = tool;
    const run = async (command: string): Promise<string> =>
      String(await tool.run({ command }, { signal: new AbortController().signal }));
    expect(await run("ls tests tally")).not.toContain("test_tally.py");
    await run(REPAIR);
    expect(await episode.grade()).toMatchObject({ reward: 1 });
  });

  it.each(["import time\ntime.sleep(1e6)", "while True: pass"])(
    "is 0 for what outlasts the limit: %j",
    async (code) => {
      const library = await libraries.open(SMALL_TASK.library);
      const workspace = await Workspace.open(backend, library, SMALL_TASK);
      await workspace.run(`printf '${code}' >tally/__init__.py`, { timeoutMs: 60_000, maxOutputBytes: 1000 });
      const change = await workspace.change();
      await workspace[Symbol.asyncDispose]();
      const verdict = await gradeChange(backend, library, SMALL_TASK, { change, testSeconds: 3 });
      expect(verdict).toMatchObject({
        resolved: false,
        dense: 0,
        reason: expect.stringMatching(/did not come to their end/u),
      });
    },
  );
});
