// SPDX-License-Identifier: Apache-2.0
// A task of SWE-bench whose repository lies in an image, at /testbed, and belongs to root there, as in SWE-bench's own images.
import { execFileSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sweBenchEnvironment } from "../../services/env-runner/src/environments/repository.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { daemonProgram } from "../../services/libs/sandbox/test-support/daemon-program.ts";
import {
  makeStates,
  PYTEST_ENVIRONMENT,
  removeStates,
  REPAIR,
  SWE_BENCH_ROW,
} from "../../services/libs/swe/test-support/small-repository.ts";

const BASE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
const IMAGE = "localhost/whetstone-test-repository:1";

/** What git does here needs no other program of git's. */
const DOCKERFILE = `FROM ${BASE}
COPY git /usr/bin/git
COPY ${SWE_BENCH_ROW.instance_id}/testbed /testbed
COPY ${SWE_BENCH_ROW.instance_id}/site /site
RUN chmod +x /usr/bin/git && ln -s /testbed/setup.cfg /testbed/.venv/link && ln /testbed/setup.cfg /testbed/.venv/same
`;

describe("a repository in an image", () => {
  const states = makeStates();
  const sandboxes = new Sandboxes({ daemonPath: daemonProgram() });
  const swe = sweBenchEnvironment(sandboxes);
  const args = {
    ...SWE_BENCH_ROW,
    eval_script: SWE_BENCH_ROW.eval_script.replaceAll("/workspace/testbed", "/testbed"),
    image: IMAGE,
    environment: { ...PYTEST_ENVIRONMENT, PYTHONPATH: "/testbed/.venv:/site" },
    memoryMiB: 512,
    diskMiB: 64,
    sandbox: { backend: "docker" },
  };

  beforeAll(() => {
    copyFileSync("/usr/bin/git", join(states, "git"));
    writeFileSync(join(states, "Dockerfile"), DOCKERFILE);
    execFileSync("docker", ["build", "--quiet", "--tag", IMAGE, states], { stdio: "pipe" });
  });

  afterAll(async () => {
    await sandboxes[Symbol.asyncDispose]();
    execFileSync("docker", ["rmi", "--force", IMAGE], { stdio: "pipe" });
    removeStates(states);
  });

  async function play(command: string, more: object = {}) {
    const environment = swe.create({ ...args, ...more });
    try {
      await environment.reset({ seed: 1 });
      const call = { id: "1", name: "bash", argumentsJson: JSON.stringify({ command }) };
      const { observation } = await environment.step([call], {});
      expect(observation).not.toMatchObject({ toolOutputs: [{ isError: true }] });
      return { said: JSON.stringify(observation), ...(await environment.step("done", {})) };
    } finally {
      await environment.close();
    }
  }

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
