// SPDX-License-Identifier: Apache-2.0
// An image with the repository of a task of SWE-bench, at /testbed, which belongs to root there as in SWE-bench's own images.
import { execFileSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { RegisteredEnvironment } from "@whetstone/sdk";
import { PYTEST_ENVIRONMENT, SWE_BENCH_ROW } from "../../services/libs/swe/test-support/small-repository.ts";

const BASE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
export const REPOSITORY_IMAGE = "localhost/whetstone-test-repository:1";

/** What git does here needs no other program of git's. */
const DOCKERFILE = `FROM ${BASE}
COPY git /usr/bin/git
COPY ${SWE_BENCH_ROW.instance_id}/testbed /testbed
COPY ${SWE_BENCH_ROW.instance_id}/site /site
RUN chmod +x /usr/bin/git && ln -s /testbed/setup.cfg /testbed/.venv/link && ln /testbed/setup.cfg /testbed/.venv/same
`;

/** @param states  the folder of `makeStates` */
export function buildRepositoryImage(states: string): void {
  copyFileSync("/usr/bin/git", join(states, "git"));
  writeFileSync(join(states, "Dockerfile"), DOCKERFILE);
  execFileSync("docker", ["build", "--quiet", "--tag", REPOSITORY_IMAGE, states], { stdio: "pipe" });
}

/** The task's arguments. */
export const REPOSITORY_TASK = {
  ...SWE_BENCH_ROW,
  eval_script: SWE_BENCH_ROW.eval_script.replaceAll("/workspace/testbed", "/testbed"),
  image: REPOSITORY_IMAGE,
  environment: { ...PYTEST_ENVIRONMENT, PYTHONPATH: "/testbed/.venv:/site" },
  memoryMiB: 512,
  diskMiB: 64,
};

/** An episode of one command. */
export async function playCommand(environments: RegisteredEnvironment, args: JsonObject, command: string) {
  const environment = environments.create(args);
  try {
    await environment.reset({ seed: 1 });
    const call = { id: "1", name: "bash", argumentsJson: JSON.stringify({ command }) };
    const { observation } = await environment.step([call], {});
    return { said: JSON.stringify(observation), ...(await environment.step("done", {})) };
  } finally {
    await environment.close();
  }
}
