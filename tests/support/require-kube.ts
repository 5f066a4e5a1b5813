// SPDX-License-Identifier: Apache-2.0
// Before the tests of vitest's project "kube": is there a cluster?
import { spawnSync } from "node:child_process";

export default function requireCluster(): void {
  if (!process.env["KUBECONFIG"])
    throw new Error("these tests need a cluster: set KUBECONFIG to a file that leads to one");
  const { status, stderr, error } = spawnSync("kubectl", ["version", "--request-timeout=10s"], { encoding: "utf8" });
  if (error) throw new Error(`these tests need kubectl on the PATH: ${error.message}`);
  if (status !== 0) throw new Error(`the cluster of KUBECONFIG does not answer: ${stderr.trim()}`);
}
