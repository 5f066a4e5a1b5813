// SPDX-License-Identifier: Apache-2.0
// Sandbox pools on the cluster of KUBECONFIG: real pods with the real daemon; the controller's part runs in this process.
import { NAMESPACES, PODS } from "@whetstone/kube";
import { SandboxService } from "@whetstone/proto/sandboxes/v1/sandboxes";
import { createClient, startServer } from "@whetstone/rpc";
import { KubernetesBackend } from "@whetstone/sandbox";
import { createLogger, createMetrics, silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import type { OperatorParts } from "../../services/controller/src/operator/parts.ts";
import { startSandboxPools } from "../../services/controller/src/operator/sandbox-pool/reconciler.ts";
import { SANDBOX_POOLS, type SandboxPoolSpec } from "../../services/controller/src/operator/sandbox-pool/schema.ts";
import { SandboxClaims } from "../../services/controller/src/sandboxes/sandbox-claims.ts";
import { sandboxService } from "../../services/controller/src/sandboxes/sandbox-service.ts";
import { GrpcPodClaims, type SandboxSource } from "../../services/env-runner/src/sandboxes/grpc-pod-claims.ts";
import { installDefinitions, openTestCluster, type TestCluster } from "./cluster.ts";

const DAEMON_IMAGE = `${process.env["REGISTRY"] || "localhost/whetstone"}/sandbox-daemon:${process.env["TAG"] || "dev"}`;
/** Commands of tests are in Python. */
const IMAGE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
const logger = process.env["WHETSTONE_TEST_LOG"] ? createLogger({ component: "test", level: "debug" }) : silentLogger;
const WARM_MS = 60_000;

export interface TestSandboxPools extends AsyncDisposable {
  readonly cluster: TestCluster;
  /** Makes a pool, and waits for its warm pods. */
  pool(name: string, spec?: Partial<SandboxPoolSpec>): Promise<void>;
  /** What an env-runner has. @param owner  name of the pod that it runs in */
  claims(pool: string, owner?: string): GrpcPodClaims;
  backend(pool: string): Promise<KubernetesBackend>;
  readonly source: SandboxSource;
  /** Names of pods that are there and do not leave. */
  pods(): Promise<string[]>;
}

/** @param usual  of every pool that is made */
export async function openSandboxPools(name: string, usual: Partial<SandboxPoolSpec> = {}): Promise<TestSandboxPools> {
  await using undo = new AsyncDisposableStack();
  installDefinitions("sandboxpools");
  const cluster = undo.use(await openTestCluster(name));
  const { kube, namespace } = cluster;
  // The strictest that there is: what needs more rights in a pod is refused.
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await kube.patch(NAMESPACES, namespace, { metadata: { labels } });
  const metrics = createMetrics({ component: "test", processMetrics: false });
  const end = new AbortController();
  undo.defer(() => end.abort());
  const parts = { kube, logger, metrics, config: { sandboxImage: DAEMON_IMAGE } };
  undo.use(await startSandboxPools(parts as unknown as OperatorParts, end.signal));
  const claims = undo.use(new SandboxClaims({ kube, daemonImage: DAEMON_IMAGE, logger, metrics }));
  const server = await startServer({ host: "127.0.0.1", port: 0, services: [sandboxService(claims)], logger });
  undo.defer(() => server.close(0));
  const source = undo.use(createClient(SandboxService, server.address));
  const all = undo.move();
  const opened = {
    cluster,
    source,
    async pool(pool: string, spec: Partial<SandboxPoolSpec> = {}): Promise<void> {
      const whole = { image: IMAGE, warm: 1, max: 4, memoryMiB: 256, diskMiB: 64, ...usual, ...spec };
      await kube.apply(SANDBOX_POOLS, { metadata: { name: pool }, spec: whole as SandboxPoolSpec });
      const isWarm = async () => ((await kube.get(SANDBOX_POOLS, pool))?.status?.warm ?? -1) >= whole.warm;
      await waitFor(isWarm, { what: `pool ${pool} to be warm`, timeoutMs: WARM_MS });
    },
    claims: (pool: string, owner = "") => new GrpcPodClaims({ source, pool: { name: pool }, owner }),
    backend: (pool: string) => KubernetesBackend.start(opened.claims(pool)),
    async pods(): Promise<string[]> {
      const there = (await kube.list(PODS)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
      return there.map(({ metadata }) => metadata.name).sort();
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
  return opened;
}
