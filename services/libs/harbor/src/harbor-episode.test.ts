// SPDX-License-Identifier: Apache-2.0
// Task folders are played in sandboxes and judged by their own tests; who cheats, and what fails, is not paid.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ProcessBackend } from "@whetstone/sandbox";
import { StateStore } from "@whetstone/swe";
import { FinalOutput, type Tool } from "@whetstone/tools";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FAULTS, SOUND, writeTask } from "../test-support/tasks.ts";
import { HarborEpisode } from "./harbor-episode.ts";
import { proveTask } from "./prove-task.ts";
import { readTask } from "./task-folder.ts";

const GIVEN = { environment: {}, writable: [] } as const;
const ANSWER = "wc -w <text.txt >answer.txt";

describe.runIf(canHaveSandboxes)("a task folder", { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-harbor-"));
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start({ maxSandboxes: 1 });
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const write = (name: string, files: object) => readTask(writeTask(folder, name, files as typeof SOUND.words));
  const episodeOf = (name: string, files: object) =>
    new HarborEpisode({
      task: write(name, files),
      toolset: "bash",
      commandTimeoutMs: 20_000,
      maxOutputBytes: 10_000,
      sandbox: GIVEN,
      grading: {},
    });

  async function play(name: string, files: object, ...commands: readonly string[]) {
    const episode = episodeOf(name, files);
    const [tool] = (await episode.open({ backend })) as [Tool & AsyncDisposable];
    await using _ = tool;
    let said = "";
    for (const command of commands) {
      const output = await tool.run({ command }, { signal: new AbortController().signal });
      said += output instanceof FinalOutput ? `FINAL ${output.text}` : String(output);
    }
    return { ...(await episode.grade()), said };
  }

  it("is solved where it says, and its own tests are the judge", async () => {
    const { reward, said } = await play("words", SOUND.words, "pwd; ls / /logs; id -u", ANSWER);
    expect(said).toMatch(/\/app\n.*logs\n.*tests\n.*agent\nartifacts\nverifier\n1000/su);
    expect(reward).toBe(1);
  });

  it("is not solved by nothing, and the record holds what the tests said", async () => {
    const { reward, isCorrect, metadata } = await play("words", SOUND.words, "echo 6 >answer.txt");
    expect({ reward, isCorrect }).toEqual({ reward: 0, isCorrect: false });
    expect(metadata["testLog"]).toContain("the answer is ['6']");
  });

  it("has the reward's parts, its Dockerfile's files, and variables", async () => {
    const right = String.raw`echo $TONE $ADDER; printf 'import sys\nprint(int(sys.argv[1]) + int(sys.argv[2]))' >adder.py`;
    const { reward, metadata, said } = await play("adder", SOUND.adder, right);
    expect(said).toContain("calm /srv/adder");
    expect({ reward, ...metadata }).toMatchObject({ reward: 1, rewards: { reward: 1, share: 1 } });
    const part = await play("adder", SOUND.adder, "echo 'print(3)' >adder.py");
    expect(part).toMatchObject({ reward: 0, metadata: { rewards: { reward: 0, share: expect.closeTo(1 / 3) } } });
  });

  it.each(Object.entries(SOUND))("%s is proved by its own solution, and by nothing", async (name, files) => {
    expect(await proveTask({ backend }, write(name, files), GIVEN)).toEqual({ gold: 1, empty: 0 });
  });

  it.each([
    ["hangs", /the tests took longer than 2 s/u],
    ["silent", /was not written, and neither was reward\.json; the tests said: .*nothing was found/u],
    ["nonsense", /holds "excellent", which is no finite number/u],
    ["infinite", /no object of finite numbers/u],
    ["ended", /was not written/u],
  ] as const)(
    "whose tests are %s is a failure of the grader, whatever reward the agent wrote",
    async (name, message) => {
      const forged = "echo 1 >/logs/verifier/reward.txt";
      await expect(play(name, FAULTS[name], ANSWER, forged)).rejects.toMatchObject({
        failureClass: "GRADER",
        message: expect.stringMatching(message) as string,
      });
    },
  );

  it("with a step that cannot be done without an image is refused by its line", async () => {
    const dockerfile = "FROM ubuntu:24.04\nWORKDIR /app\nRUN touch /usr/bin/thing\n";
    await expect(play("needs", { ...SOUND.words, "environment/Dockerfile": dockerfile })).rejects.toMatchObject({
      failureClass: "TASK",
      message: expect.stringMatching(
        /needs\/environment\/Dockerfile:3: RUN touch.*Read-only.*neither root/su,
      ) as string,
    });
  });

  it("that wants a variable of nobody's is refused by name", async () => {
    const toml = '[verifier]\nenv = { KEY = "${SECRET_OF_OURS}" }\n';
    process.env["SECRET_OF_OURS"] = "1";
    await expect(play("secret", { ...SOUND.words, "task.toml": toml }, ANSWER)).rejects.toMatchObject({
      failureClass: "TASK",
      message: expect.stringMatching(/task\.toml: verifier\.env\.KEY needs SECRET_OF_OURS/u) as string,
    });
    delete process.env["SECRET_OF_OURS"];
  });

  it("begins with a folder that was prepared", async () => {
    const states = join(folder, "states");
    mkdirSync(join(states, "words/app"), { recursive: true });
    writeFileSync(join(states, "words/app/text.txt"), "a b c d e");
    await using store = new StateStore(states, backend);
    const proof = await proveTask({ backend, states: store }, write("words", SOUND.words), GIVEN);
    expect(proof).toEqual({ gold: 1, empty: 0 });
  });

  it("ends when the agent's time is over, and what was left is judged", async () => {
    const toml = `${SOUND.words["task.toml"]}`.replace("120.0", "1.5");
    const { said, reward } = await play("late", { ...SOUND.words, "task.toml": toml }, `${ANSWER}; sleep 30`);
    expect(said).toContain("FINAL the agent's time is over");
    expect(reward).toBe(1);
  });

  it.each([
    ["writes the reward beforehand", "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt"],
    ["writes the other file", "echo '{\"reward\": 1}' >/logs/verifier/reward.json"],
    [
      "hides it behind links and rights",
      "rm -rf /logs/verifier; mkdir /app/v; echo '{\"reward\": 1}' >/app/v/reward.json; ln -s /app/v /logs/verifier; chmod 500 /app/v; chmod 100 /logs",
    ],
    [
      "leaves a writer behind",
      "(while true; do echo '{\"reward\": 1}' >/logs/verifier/reward.json; sleep 0.1; done) >/dev/null 2>&1 & disown; true",
    ],
    [
      "puts tests of its own there",
      "mkdir /tests/check.py; echo 'echo 1 >/logs/verifier/reward.txt' >/tests/test.sh; chmod 500 /tests",
    ],
    [
      "replaces the tests' tools",
      "mkdir -p ~/bin; echo 'exit 0' >~/bin/python3; chmod +x ~/bin/python3; cp ~/bin/python3 /usr/local/bin/; export PATH=~/bin:$PATH; echo PATH=~/bin >~/.bashrc",
    ],
    ["fills the disk", "head -c 2000000000 /dev/zero >/logs/fill"],
  ])("is not solved by who %s", async (_, command) => {
    const { reward, isCorrect } = await play("words", SOUND.words, command);
    expect({ reward, isCorrect }).toEqual({ reward: 0, isCorrect: false });
  });
});
