// SPDX-License-Identifier: Apache-2.0
// A task folder of Harbor's whose image was built from its own Dockerfile, in containers.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SOUND, writeTask } from "@whetstone/harbor/test-support";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { harborEnvironment } from "../../services/env-runner/src/environments/harbor.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { daemonProgram } from "../../services/libs/sandbox/test-support/daemon-program.ts";
import { playCommand } from "../support/repository-image.ts";
import { runWhet } from "../support/whet.ts";

const BASE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
const IMAGE = "localhost/whetstone-test-harbor-words:1";
const TEMPLATE = "localhost/whetstone-test-harbor-{task}:1";

describe("a task folder whose image was built", () => {
  const tasks = mkdtempSync(join(tmpdir(), "whetstone-harbor-"));
  const daemonPath = daemonProgram();
  const sandboxes = new Sandboxes({ daemonPath });
  const harbor = harborEnvironment(sandboxes);
  const args = { tasks, task: "words", image: TEMPLATE, sandbox: { backend: "docker" }, diskMiB: 64 };
  const play = (command: string, more: object = {}) => playCommand(harbor, { ...args, ...more }, command);

  beforeAll(() => {
    // `RUN` of an image's build is root's and may have a network: here it only shows that the image is what begins.
    const dockerfile = `FROM ${BASE}\nWORKDIR /app\nCOPY text.txt .\nRUN echo built >/usr/local/made\n`;
    const folder = writeTask(tasks, "words", { ...SOUND.words, "environment/Dockerfile": dockerfile });
    execFileSync("docker", ["build", "--quiet", "--tag", IMAGE, join(folder, "environment")], { stdio: "pipe" });
  });
  afterAll(async () => {
    await sandboxes[Symbol.asyncDispose]();
    execFileSync("docker", ["rmi", "--force", IMAGE], { stdio: "pipe" });
    rmSync(tasks, { recursive: true });
  });

  it("is solved where the image has it, by a user that the image does not know", async () => {
    const { said, reward, info } = await play(
      "pwd; id -u; cat /usr/local/made; ls /tests; wc -w <text.txt >answer.txt",
    );
    expect(said).toMatch(/\/app\\n65533\\nbuilt/u);
    expect(reward, JSON.stringify(info)).toBe(1);
  });

  it("is not solved by nothing, nor by rewards and tests of the agent's", async () => {
    expect(await play("ls")).toMatchObject({ reward: 0 });
    const forged =
      "echo 1 >/logs/verifier/reward.txt; echo '{\"reward\": 1}' >/logs/verifier/reward.json; chmod 500 /tests";
    expect(await play(`${forged}; mkdir /tests/check.py; touch /usr/local/made`)).toMatchObject({ reward: 0 });
  });

  it("is proved by its own solution in its image", () => {
    process.env["WHETSTONE_SANDBOX_DAEMON_PATH"] = daemonPath;
    const { status, output } = runWhet("tasks", "verify", tasks, "--docker", "--image", TEMPLATE);
    delete process.env["WHETSTONE_SANDBOX_DAEMON_PATH"];
    expect({ status, output }).toMatchObject({ status: 0, output: expect.stringMatching(/1 of 1 tasks are sound/u) });
  });

  it("whose image is not there is a failure of ours, by its name", async () => {
    await expect(play("ls", { image: "localhost/nowhere:1" })).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringMatching(/no image "localhost\/nowhere:1"/u) as string,
    });
  });
});
