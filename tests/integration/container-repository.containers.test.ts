// SPDX-License-Identifier: Apache-2.0
// A task of SWE-bench whose repository lies in an image, in containers.
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sweBenchEnvironment } from "../../services/env-runner/src/environments/repository.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { daemonProgram } from "../../services/libs/sandbox/test-support/daemon-program.ts";
import { makeStates, removeStates, REPAIR } from "../../services/libs/swe/test-support/small-repository.ts";
import { buildRepositoryImage, playCommand, REPOSITORY_IMAGE, REPOSITORY_TASK } from "../support/repository-image.ts";

describe("a repository in an image", () => {
  const states = makeStates();
  const sandboxes = new Sandboxes({ daemonPath: daemonProgram() });
  const swe = sweBenchEnvironment(sandboxes);
  const args = { ...REPOSITORY_TASK, sandbox: { backend: "docker" } };
  const play = (command: string, more: object = {}) => playCommand(swe, { ...args, ...more }, command);

  beforeAll(() => buildRepositoryImage(states));

  afterAll(async () => {
    await sandboxes[Symbol.asyncDispose]();
    execFileSync("docker", ["rmi", "--force", REPOSITORY_IMAGE], { stdio: "pipe" });
    removeStates(states);
  });

  it("is repaired where it lies, by a user that the image does not know", async () => {
    const { said, reward, info } = await play(`pwd; id -u; test -h .venv/link && cat .venv/same; ${REPAIR}`);
    expect(said).toMatch(/\/testbed.*65533.*addopts/u);
    expect(reward, JSON.stringify(info)).toBe(1);
  });

  it("is not repaired by what does nothing, nor by tests that were edited", async () => {
    expect(await play("ls")).toMatchObject({ reward: 0 });
    expect(await play("sed -i 's/== 10/== 12/' tests/*.py; echo '#' >>tally/core.py")).toMatchObject({ reward: 0 });
  });

  it("may be written within the limits, and nothing else of the image may", async () => {
    const { said } = await play(
      "head -c 100000000 /dev/zero >big; wc -c <big; rm big; touch /site/x; touch /usr/bin/x",
    );
    expect(said).toMatch(/No space left.*67\d{6}|67\d{6}.*No space left/u);
    expect(said.match(/Read-only file system/gu)).toHaveLength(2);
  });

  it("that is not there is a failure of ours", async () => {
    await expect(play("ls", { repository: "/nowhere" })).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE" });
    await expect(play("ls", { repository: "/usr/../etc" })).rejects.toThrow(/imageFolders\[0\]/u);
  });
});
