// SPDX-License-Identifier: Apache-2.0
// The chart's NATS with three servers and TLS on a real cluster: one is killed, and publishing goes on.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep } from "@whetstone/core";
import { connectNats, ensureJobStreams, ensurePlatform, type Nats } from "@whetstone/messaging";
import { jetstream } from "@nats-io/jetstream";
import { silentLogger as logger } from "@whetstone/telemetry";
import { TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { afterAll, beforeAll, expect, it } from "vitest";

const NAMESPACE = `nats-${process.pid}`;
const CHART = join(import.meta.dirname, "../../charts/whetstone");
const VALIDITY = { from: new Date(), days: 1 };
const folder = mkdtempSync(join(tmpdir(), "whetstone-nats-kube-"));

const run = (program: string, args: readonly string[], input?: string): string =>
  execFileSync(program, args, { encoding: "utf8", ...(input !== undefined && { input }) });
const kubectl = (...args: string[]): string => run("kubectl", ["-n", NAMESPACE, ...args]);

beforeAll(async () => {
  run("kubectl", ["create", "namespace", NAMESPACE]);
  run("kubectl", ["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]);
  const authority = createAuthority(VALIDITY);
  const names = ["*.r-nats-headless"];
  for (const role of ["nats", "controller"] as const)
    writeTlsFolder(join(folder, role), authority.cert, issue(authority, role, names, VALIDITY));
  const files = ["ca.crt", "tls.crt", "tls.key"].map((file) => `--from-file=${join(folder, "nats", file)}`);
  kubectl("create", "secret", "generic", "r-nats-tls", ...files);
  const values = ["tls.mode=secret", "nats.replicas=3", "nats.persistence.size=1Gi"].flatMap((value) => [
    "--set",
    value,
  ]);
  const shown = ["nats.yaml", "serviceaccounts.yaml"].flatMap((name) => ["-s", `templates/${name}`]);
  const manifest = run("helm", ["template", "r", CHART, "-n", NAMESPACE, ...values, ...shown]);
  run("kubectl", ["-n", NAMESPACE, "apply", "-f", "-"], manifest);
  kubectl("rollout", "status", "statefulset/r-nats", "--timeout=110s");
});

afterAll(() => {
  run("kubectl", ["delete", "namespace", NAMESPACE, "--wait=false"]);
  rmSync(folder, { recursive: true });
});

it("publishes go on, and nothing acknowledged is lost, when one of three servers is killed", async () => {
  using tls = new TlsIdentity(join(folder, "controller"), { logger });
  const addresses = kubectl("get", "pods", "-o", "jsonpath={.items[*].status.podIP}").split(" ");
  const servers = addresses.map((address) => `tls://${address}:4222`);
  await using nats: Nats = await connectNats({ servers, name: "controller", logger, tls });
  await ensurePlatform(nats, { replicas: 3 });
  await ensureJobStreams(nats, "r", { replicas: 3 });
  const js = jetstream(nats, { timeout: 2_000 });
  const manager = await js.jetstreamManager();
  const leader = (await manager.streams.info("WS_EPISODE_r")).cluster?.leader ?? "";
  expect(leader).toMatch(/^r-nats-\d$/);

  const acknowledged: number[] = [];
  let longest = 0;
  let last = performance.now();
  const end = last + 25_000;
  setTimeout(() => kubectl("delete", "pod", leader, "--grace-period=0", "--force"), 3_000);
  for (let index = 0; performance.now() < end; index += 1) {
    // Again under the same id until it is acknowledged: the stream keeps one.
    for (;;) {
      const sent = await js.publish(`ws.r.episode.g${index}.0`, "x", { msgID: `m${index}` }).then(
        () => true,
        () => false,
      );
      if (sent) break;
      await sleep(50);
    }
    acknowledged.push(index);
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    await sleep(5);
  }
  kubectl("rollout", "status", "statefulset/r-nats", "--timeout=60s");
  const { state } = await manager.streams.info("WS_EPISODE_r");
  console.log(`${acknowledged.length} messages acknowledged, longest gap ${Math.round(longest)} ms`);
  expect(state.messages).toBe(acknowledged.length);
  expect(acknowledged.length).toBeGreaterThan(500);
});

it("reads a changed certificate without a restart", async () => {
  const restarts = (): string =>
    kubectl("get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}");
  const before = restarts();
  const next = createAuthority(VALIDITY);
  for (const role of ["nats", "controller"] as const)
    writeTlsFolder(join(folder, role), next.cert, issue(next, role, ["*.r-nats-headless"], VALIDITY));
  const files = ["ca.crt", "tls.crt", "tls.key"].map((file) => `--from-file=${join(folder, "nats", file)}`);
  const secret = kubectl("create", "secret", "generic", "r-nats-tls", ...files, "--dry-run=client", "-o", "yaml");
  run("kubectl", ["-n", NAMESPACE, "apply", "-f", "-"], secret);
  // A write to the pod makes the kubelet look at its volumes at once, instead of within a minute or two.
  kubectl("annotate", "pods", "--all", `touched=${Date.now()}`, "--overwrite");
  using tls = new TlsIdentity(join(folder, "controller"), { logger });
  const address = kubectl("get", "pod", "r-nats-0", "-o", "jsonpath={.status.podIP}");
  const end = performance.now() + 100_000;
  for (;;) {
    const connection = await connectNats({
      servers: `tls://${address}:4222`,
      name: "controller",
      logger,
      tls,
      timeoutMs: 2_000,
    }).catch(() => undefined);
    if (connection !== undefined) {
      await connection.close();
      break;
    }
    if (performance.now() > end) throw new Error("the server still has its old certificate");
    await sleep(1_000);
  }
  expect(restarts()).toBe(before);
});
