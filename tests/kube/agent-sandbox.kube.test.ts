// SPDX-License-Identifier: Apache-2.0
// Sandbox pools that kubernetes-sigs/agent-sandbox serves: run on any cluster where it is installed with its extensions, and runs
// (docs/testing.md). On a cluster without it a pool says so.
import { randomUUID, X509Certificate } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { sleep } from "@whetstone/core";
import { openKube, PODS } from "@whetstone/kube";
import { SandboxFate } from "@whetstone/proto/sandboxes/v1/sandboxes";
import type { KubernetesBackend, Sandbox } from "@whetstone/sandbox";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { selfSigned } from "@whetstone/tls/issuer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  SANDBOX_CLAIMS,
  SANDBOX_TEMPLATES,
  SANDBOX_WARM_POOLS,
} from "../../services/controller/src/operator/sandbox-pool/agent-sandbox.ts";
import { SANDBOX_LABELS } from "../../services/controller/src/operator/sandbox-pool/pods.ts";
import { NETWORK_POLICIES, SANDBOX_POOLS } from "../../services/controller/src/operator/sandbox-pool/schema.ts";
import { describePromises } from "../../services/libs/sandbox/test-support/promises.ts";
import { openSandboxPools, type TestSandboxPools } from "../support/sandbox-pools.ts";

const sh = (script: string): string[] => ["sh", "-c", script];
/** Its pods leave by the garbage collector, which takes its time. */
const GONE = { timeoutMs: 60_000 };

const stack = new AsyncDisposableStack();
let pools: TestSandboxPools;
let backend: KubernetesBackend;

const isThere = await (async () => {
  using kube = openKube({ logger: silentLogger });
  return await kube.has(SANDBOX_CLAIMS);
})();
if (!isThere) console.log("agent-sandbox (extensions.agents.x-k8s.io/v1beta1) is not installed: only that is tested");

beforeAll(async () => {
  pools = stack.use(await openSandboxPools("agents", { provider: "agentSandbox" }));
  if (!isThere) return;
  await pools.pool("python");
  backend = stack.use(await pools.backend("python"));
});

afterAll(async () => {
  await stack.disposeAsync();
});

async function podOf({ id }: Pick<Sandbox, "id">): Promise<string> {
  const [pod] = await pools.cluster.kube.list(PODS, { labels: `${SANDBOX_LABELS.claim}=${id}` });
  return pod?.metadata.name ?? "";
}

async function claims(): Promise<string[]> {
  return (await pools.cluster.kube.list(SANDBOX_CLAIMS)).map(({ metadata }) => metadata.name);
}

const leaves = (pod: string) =>
  waitFor(async () => !(await pools.pods()).includes(pod), { what: `${pod} to go`, ...GONE });

describe.skipIf(isThere)("a pool of agent-sandbox, which is not there", () => {
  it("says what to install, and so does a claim", async () => {
    await expect(pools.pool("python", { warm: 0, max: 1 })).resolves.toBeUndefined();
    const ready = async () =>
      (await pools.cluster.kube.get(SANDBOX_POOLS, "python"))?.status?.conditions?.find(({ type }) => type === "Ready");
    await waitFor(async () => (await ready())?.reason === "NoAgentSandbox", { what: "the pool to say so" });
    expect(await ready()).toMatchObject({ status: "False", message: expect.stringContaining("install") as string });
    await expect(pools.claims("python").claim({ ttlMs: 60_000 })).rejects.toThrow(/install kubernetes-sigs/u);
  });
});

describe.skipIf(!isThere)("a sandbox in a pod of agent-sandbox", () => {
  describePromises({
    backend: () => backend,
    limits: { memoryMiB: 200, diskMiB: 60, processes: 40 },
    memory: () => ({ exitCode: 1, stderr: expect.stringContaining("MemoryError") as string }),
    processes: () => "PROCESSES",
  });
});

describe.skipIf(!isThere)("a pool of agent-sandbox", () => {
  it("gives a pod that waited, and deletes it with its claim when the sandbox is closed", async () => {
    await pools.pool("python");
    const waiting = await pools.pods();
    const own = await backend.open();
    const name = await podOf(own);
    expect(waiting).toContain(name);
    expect(await claims()).toHaveLength(1);
    await own.close();
    await leaves(name);
    expect(await claims()).toEqual([]);
    await pools.pool("python");
  });

  it("says that a sandbox is lost when its pod is deleted, though another comes in its place", async () => {
    const own = await backend.open();
    const name = await podOf(own);
    const execution = own.exec(sh("echo up; sleep 60"));
    await execution.chunks()[Symbol.asyncIterator]().next();
    const { metadata } = (await pools.cluster.kube.get(PODS, name)) ?? {};
    await pools.cluster.kube.delete(PODS, name, { graceSeconds: 0 });
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
    const other = async () => (await pools.cluster.kube.get(PODS, name))?.metadata.uid ?? metadata?.uid;
    await waitFor(async () => (await other()) !== metadata?.uid, { what: "agent-sandbox to make it anew", ...GONE });
    expect(await pools.source.getSandbox({ claimId: own.id })).toMatchObject({ fate: SandboxFate.GONE });
    await own.close();
    await leaves(name);
  });

  it("says that a sandbox is lost when its SandboxClaim is deleted", async () => {
    await using own = await backend.open();
    const execution = own.exec(sh("sleep 60"));
    for (const claim of await claims()) await pools.cluster.kube.delete(SANDBOX_CLAIMS, claim);
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
  });

  it("ends sandboxes whose time is over, and deletes them though nobody asks", async () => {
    const own = await backend.open({ ttlMs: 4000 });
    const name = await podOf(own);
    await expect(own.exec(sh("sleep 60")).result).rejects.toMatchObject({ failure: "EXPIRED" });
    await leaves(name);
    expect(await claims()).toEqual([]);
    await own.close();
  });

  it("deletes those whose owner has gone", async () => {
    const { kube } = pools.cluster;
    const security = {
      runAsNonRoot: true,
      runAsUser: 10001,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    };
    const container = { name: "runner", image: "busybox:stable", command: ["sleep", "600"], securityContext: security };
    await kube.create(PODS, { metadata: { name: "runner-1" }, spec: { containers: [container] } });
    const claimed = await pools.claims("python", "runner-1").claim({ ttlMs: 600_000 });
    const name = await podOf(claimed);
    await sleep(3000);
    expect(await pools.pods()).toContain(name);
    await kube.delete(PODS, "runner-1", { graceSeconds: 0 });
    await leaves(name);
    expect(await claims()).toEqual([]);
  });

  it("gives a pod to one claim only, and the same pod to the same claim", async () => {
    const own = pools.claims("python");
    const claimed = await Promise.all([1, 2, 3].map(() => own.claim({ ttlMs: 60_000 })));
    expect(new Set(claimed.map(({ address }) => address)).size).toBe(3);
    await Promise.all(claimed.map(({ id }) => own.release(id)));
    const { cert } = selfSigned("episode", { from: new Date(), days: 1 });
    const request = {
      claimId: randomUUID(),
      pool: "python",
      ttl: durationFromMs(60_000),
      certificateFingerprint: new X509Certificate(cert).fingerprint256.replaceAll(":", "").toLowerCase(),
    };
    const first = await pools.source.claimSandbox(request, { deadlineMs: 60_000 });
    expect(await pools.source.claimSandbox(request, { deadlineMs: 60_000 })).toEqual(first);
    await own.release(request.claimId);
  });

  it("gives no more than it has, and one that comes free to who waits; who stops waiting leaves nothing", async () => {
    await pools.pool("small", { warm: 1, max: 1 });
    const own = pools.claims("small");
    const first = await own.claim({ ttlMs: 60_000 });
    const late = own.claim({ ttlMs: 60_000, signal: AbortSignal.timeout(3000) });
    await sleep(1500);
    expect(await claims()).toHaveLength(1);
    await expect(late).rejects.toThrow();
    const next = own.claim({ ttlMs: 60_000 });
    await own.release(first.id);
    await own.release((await next).id);
    await waitFor(async () => (await claims()).length === 0, { what: "all claims to go", ...GONE });
  });

  it("has our network policy, and none of agent-sandbox's, which lets pods reach the internet", async () => {
    const { kube } = pools.cluster;
    const policies = (await kube.list(NETWORK_POLICIES)).map(({ metadata }) => metadata.name);
    expect(policies.sort()).toEqual(["sandbox-python", "sandbox-small"]);
  });

  it("makes pods anew when what they are made from changes", async () => {
    await pools.pool("python");
    const before = await pools.cluster.kube.get(SANDBOX_TEMPLATES, "sandbox-python");
    const old = (await pools.pods()).filter((name) => name.startsWith("sandbox-python-"));
    await pools.pool("python", { cpus: 0.9 });
    for (const name of old) await leaves(name);
    await pools.pool("python", { cpus: 0.9 });
    const after = await pools.cluster.kube.get(SANDBOX_TEMPLATES, "sandbox-python");
    expect(after?.metadata.generation).toBe((before?.metadata.generation ?? 0) + 1);
  });

  it("leaves nothing when it is deleted", async () => {
    await using _held = await backend.open();
    await pools.cluster.kubectl(["delete", "sandboxpool", "--all"]);
    await waitFor(async () => (await pools.pods()).length === 0, { what: "all pods to go", ...GONE });
    for (const type of [SANDBOX_CLAIMS, SANDBOX_WARM_POOLS, SANDBOX_TEMPLATES])
      expect(await pools.cluster.kube.list(type)).toEqual([]);
  });
});
