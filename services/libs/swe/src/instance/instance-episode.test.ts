// SPDX-License-Identifier: Apache-2.0
// Tasks of SWE-bench and R2E-Gym are played and judged, from folders and from what stands for images.
import { type OpenOptions, ProcessBackend, type Sandbox, type SandboxBackend } from "@whetstone/sandbox";
import type { RewardOutput } from "@whetstone/sdk";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { INSTANCE_HACKS } from "../../test-support/instance-hacks.ts";
import {
  makeStates,
  PYTEST_ENVIRONMENT,
  R2E_GYM_ROW,
  removeStates,
  REPAIR,
  SWE_BENCH_ROW,
} from "../../test-support/small-repository.ts";
import { R2E_GYM_FIELDS } from "../formats/r2e-gym-instance.ts";
import { r2eGymTask } from "../formats/r2e-gym-task.ts";
import { checkSweBenchRow, SWE_BENCH_FIELDS } from "../formats/swe-bench-instance.ts";
import { sweBenchTask } from "../formats/swe-bench-task.ts";
import type { BashTool } from "../tools/bash-tool.ts";
import { InstanceEpisode } from "./instance-episode.ts";
import type { RepositoryTask } from "./repository-task.ts";
import { StateStore } from "./state-store.ts";

const SWE_BENCH = sweBenchTask(z.object(SWE_BENCH_FIELDS).superRefine(checkSweBenchRow).parse(SWE_BENCH_ROW));
const R2E_GYM = r2eGymTask(z.object(R2E_GYM_FIELDS).parse(R2E_GYM_ROW));

/** Of docker and kubernetes, an episode needs no more than this: a sandbox that begins with an image. */
function withImages(backend: SandboxBackend, states: StateStore, idOf: (image: string) => string): SandboxBackend {
  const open = async ({ image, ...options }: OpenOptions = {}): Promise<Sandbox> => {
    const { state } = await states.borrow(idOf(image ?? ""));
    return backend.open({ ...options, prepared: state });
  };
  return {
    level: backend.level,
    open,
    prepare: backend.prepare.bind(backend),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

describe.runIf(canHaveSandboxes)("a repository in the format of others", { timeout: 120_000 }, () => {
  const folder = makeStates();
  let backend: ProcessBackend;
  let states: StateStore;
  beforeAll(async () => {
    backend = await ProcessBackend.start({ maxSandboxes: 1 });
    states = new StateStore(folder, backend);
  });
  afterAll(async () => {
    await states[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    removeStates(folder);
  });

  interface Played extends RewardOutput {
    readonly said: string;
  }
  async function play(
    task: RepositoryTask,
    commands: readonly string[],
    more: { images?: boolean; testTimeoutMs?: number } = {},
  ): Promise<Played> {
    const { images = false, testTimeoutMs = 60_000 } = more;
    const repository = { root: "/workspace/testbed", environment: PYTEST_ENVIRONMENT };
    const times = { commandTimeoutMs: 60_000, testTimeoutMs, maxOutputBytes: 20_000 };
    const episode = new InstanceEpisode({ task, toolset: "bash", reward: "dense", ...times, repository });
    const deps = images ? { backend: withImages(backend, states, () => task.id) } : { backend, states };
    const [tool] = (await episode.open(deps)) as [BashTool];
    await using _ = tool;
    let said = "";
    for (const command of commands)
      said += String(await tool.run({ command }, { signal: new AbortController().signal }));
    return { ...(await episode.grade()), said };
  }

  it.each([{ images: false }, { images: true }])("of SWE-bench is repaired, %j", async (more) => {
    const { reward, metadata } = await play(SWE_BENCH, [REPAIR], more);
    expect({ reward, ...metadata }).toMatchObject({
      reward: 1,
      resolved: true,
      resolution: "RESOLVED_FULL",
      reason: "",
    });
  });

  it.each([{ images: false }, { images: true }])("of R2E-Gym is repaired, %j", async (more) => {
    const { reward, metadata } = await play(R2E_GYM, [REPAIR], more);
    expect({ reward, ...metadata }).toMatchObject({ reward: 1, resolved: true, different: 0 });
  });

  it("is not repaired by nothing, and the record holds what the tests said", async () => {
    expect(await play(SWE_BENCH, ["ls"])).toMatchObject({
      reward: 0,
      metadata: { reason: "nothing of the repository was changed" },
    });
    const { reward, metadata } = await play(SWE_BENCH, ["echo '#' >>tally/core.py"]);
    expect({ reward, ...metadata }).toMatchObject({
      resolved: false,
      resolution: "RESOLVED_NO",
      failToPass: 0,
      passToPass: 1,
    });
    expect(metadata?.["testLog"]).toContain("FAILED tests/test_core.py::test_high");
    expect(await play(R2E_GYM, ["echo '#' >>tally/core.py"])).toMatchObject({
      isCorrect: false,
      metadata: { different: 1 },
    });
  });

  it("is repaired in part", async () => {
    const half = [REPAIR, "sed -i 's/return low/return 0/' tally/core.py"];
    const { isCorrect, metadata } = await play(SWE_BENCH, half);
    expect({ isCorrect, ...metadata }).toMatchObject({ isCorrect: false, resolution: "RESOLVED_PARTIAL", dense: 0.5 });
  });

  it("shows the agent neither the repair in the history nor the tests", async () => {
    const look =
      "git log --all --oneline; git stash list; git tag; cat .git/ORIG_HEAD; git fsck --lost-found; ls -a . r2e_tests";
    for (const task of [SWE_BENCH, R2E_GYM]) {
      const { said } = await play(task, [look]);
      expect(said).toContain("start");
      expect(said).not.toMatch(/repair|test_1|run_tests|expected_test|dangling/u);
    }
  });

  it("is not judged 0 where it is not there: that is a failure of a class", async () => {
    const options = {
      toolset: "bash",
      reward: "resolved",
      commandTimeoutMs: 1000,
      testTimeoutMs: 1000,
      maxOutputBytes: 1000,
    } as const;
    const opening = (task: RepositoryTask, root: string, from?: StateStore): Promise<unknown> =>
      new InstanceEpisode({ ...options, task, repository: { root, environment: {} } }).open({ backend, states: from });
    await expect(opening({ ...SWE_BENCH, id: "nowhere" }, "/workspace/testbed", states)).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringMatching(/the state of nowhere/u),
    });
    await expect(opening(SWE_BENCH, "/testbed")).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringMatching(/has no images \(swebench\/sweb\.eval/u),
    });
    await expect(opening(SWE_BENCH, "/workspace/no", states)).rejects.toMatchObject({
      failureClass: "TASK",
      message: expect.stringMatching(/no repository to begin with in \/workspace\/no/u),
    });
  });

  it("is worth 0 when its tests outlast their time", async () => {
    const { reward, metadata } = await play(SWE_BENCH, ["echo 'import time; time.sleep(60)' >>tally/core.py"], {
      testTimeoutMs: 4000,
    });
    expect({ reward, ...metadata }).toMatchObject({ reward: 0, reason: "the tests took too long" });
  });

  it.each(INSTANCE_HACKS)("is worth 0 for who $name", async ({ commands, task = "swe-bench" }) => {
    const { reward, metadata } = await play(task === "swe-bench" ? SWE_BENCH : R2E_GYM, commands);
    expect({ reward: Math.floor(reward), ...metadata }).toMatchObject({ reward: 0, resolved: false });
  });

  it("is worth 1 for a repair, whatever tricks lie beside it that are undone", async () => {
    const beside = INSTANCE_HACKS.filter(({ isUndone = false }) => isUndone).flatMap(({ commands }) => commands);
    const { metadata, said } = await play(SWE_BENCH, [...beside, "git checkout tally; git status", REPAIR]);
    expect(metadata, said).toMatchObject({ resolved: true });
  });
});
