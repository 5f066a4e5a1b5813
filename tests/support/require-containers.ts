// SPDX-License-Identifier: Apache-2.0
// Before the tests of vitest's project "containers": is there a container engine?
import { spawnSync } from "node:child_process";

export default function requireContainers(): void {
  const { status, stderr, error } = spawnSync("docker", ["version"], { encoding: "utf8" });
  if (error) throw new Error(`these tests need docker on the PATH: ${error.message}`);
  if (status !== 0) throw new Error(`no container engine answers; start it, or set DOCKER_HOST: ${stderr.trim()}`);
}
