// SPDX-License-Identifier: Apache-2.0
// Sandboxes in pods: claimed, used, lost, expired, and gone afterwards.
import { PODS } from "@whetstone/kube";
import { type KubernetesBackend, openTogether, type Sandbox } from "@whetstone/sandbox";
import { waitFor } from "@whetstone/testkit";
import { sleep } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SANDBOX_LABELS } from "../../services/controller/src/operator/sandbox-pool/pods.ts";
import { codeEnvironment } from "../../services/env-runner/src/environments/code.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { describePromises } from "../../services/libs/sandbox/test-support/promises.ts";
import { openSandboxPools, type TestSandboxPools } from "../support/sandbox-pools.ts";

const sh = (script: string): string[] => ["sh", "-c", script];

const stack = new AsyncDisposableStack();
let pools: TestSandboxPools;
let backend: KubernetesBackend;

beforeAll(async () => {
  pools = stack.use(await openSandboxPools("sandbox"));
  await pools.pool("python");
  backend = stack.use(await pools.backend("python"));
});

afterAll(async () => {
  await stack.disposeAsync();
});

async function podOf(sandbox: Sandbox): Promise<string> {
  const [pod] = await pools.cluster.kube.list(PODS, { labels: `${SANDBOX_LABELS.claim}=${sandbox.id}` });
  return pod?.metadata.name ?? "";
}

describe("a sandbox in a pod", () => {
  describePromises({
    backend: () => backend,
    limits: { memoryMiB: 200, diskMiB: 60, processes: 40 },
    memory: () => ({ exitCode: 1, stderr: expect.stringContaining("MemoryError") as string }),
    processes: () => "PROCESSES",
  });

  it("says that all of a pod ran out of memory", async () => {
    await using sandbox = await backend.open({ limits: { memoryMiB: 200 } });
    // All of them stay: one that ends before the next begins would leave its memory to that one.
    const child = "x = bytearray(150_000_000); time.sleep(60)";
    const many = `import os, time\nfor i in range(4):\n if os.fork() == 0: ${child}\nos.wait(); os.abort()`;
    expect(await sandbox.exec(["python3", "-c", many]).result).toMatchObject({ failure: "MEMORY" });
    expect((await sandbox.exec(["echo", "still there"]).result).stdout).toBe("still there\n");
  });

  it("gives no file of its daemon's", async () => {
    await using sandbox = await backend.open();
    await sandbox.exec(sh("ln -s /tmp out; ln -s /proc/1 daemon")).result;
    const upload = sandbox.upload([{ path: "out/planted", content: "x" }]);
    await expect(upload).rejects.toMatchObject({ name: "FileConflictError" });
    expect((await sandbox.exec(["ls", "/tmp"]).result).stdout).toBe("");
    expect(await sandbox.download(["daemon/environ", "daemon", "out"])).toEqual([]);
  });
});

describe("a pool", () => {
  it("deletes a pod when its sandbox is closed, with what runs in it, and makes another", async () => {
    const own = await backend.open();
    const name = await podOf(own);
    const execution = own.exec(sh("sleep 60"));
    await Promise.all([own.close(), own.close()]);
    await expect(execution.result).rejects.toMatchObject({ name: "SandboxError", failure: "CLOSED" });
    expect(() => own.exec(["true"])).toThrow(/was closed/);
    await waitFor(async () => !(await pools.pods()).includes(name), { what: "its pod to go" });
    await pools.pool("python");
  });

  it("says that a sandbox is lost when its pod is deleted", async () => {
    await using own = await backend.open();
    const execution = own.exec(sh("echo up; sleep 60"));
    await execution.chunks()[Symbol.asyncIterator]().next();
    await pools.cluster.kube.delete(PODS, await podOf(own), { graceSeconds: 0 });
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
    await using next = await backend.open();
    expect((await next.exec(["echo", "again"]).result).stdout).toBe("again\n");
  });

  it("ends sandboxes whose time is over, and deletes their pods though nobody asks", async () => {
    const own = await backend.open({ ttlMs: 4000 });
    const name = await podOf(own);
    await expect(own.exec(sh("sleep 60")).result).rejects.toMatchObject({ failure: "EXPIRED" });
    await waitFor(async () => !(await pools.pods()).includes(name), { what: "its pod to go", timeoutMs: 20_000 });
    await own.close();
  });

  it("gives two pods to all who want two at once, and nobody has to give one back", async () => {
    await pools.pool("pairs", { warm: 0, max: 2 });
    await using scarce = await pools.backend("pairs");
    const open = vi.spyOn(scarce, "open");
    const use = async (): Promise<void> => {
      const both = await openTogether(scarce, {}, {});
      for (const sandbox of both) await sandbox.close();
    };
    await Promise.all([use(), use(), use()]);
    expect(open).toHaveBeenCalledTimes(6);
    await pools.pool("single", { warm: 0, max: 1 });
    await using single = await pools.backend("single");
    await expect(openTogether(single, {}, {})).rejects.toThrow(/at most 1 pod, and two at once are needed/u);
  });

  it("deletes pods whose owner has gone", async () => {
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
    const [pod] = await kube.list(PODS, { labels: `${SANDBOX_LABELS.claim}=${claimed.id}` });
    await sleep(3000);
    expect(await pools.pods()).toContain(pod?.metadata.name);
    await kube.delete(PODS, "runner-1", { graceSeconds: 0 });
    const isGone = async () => !(await pools.pods()).includes(pod?.metadata.name ?? "");
    await waitFor(isGone, { what: "the sandbox of a runner that has gone", timeoutMs: 30_000 });
  });

  it("gives a pod to one claim only, and the same pod to the same claim", async () => {
    const claims = pools.claims("python");
    const claimed = await Promise.all([1, 2, 3].map(() => claims.claim({ ttlMs: 60_000 })));
    expect(new Set(claimed.map(({ address }) => address)).size).toBe(3);
    await Promise.all(claimed.map(({ id }) => claims.release(id)));
  });

  it("gives no more than it has, and one that comes free to who waits", async () => {
    await pools.pool("small", { warm: 1, max: 1 });
    const claims = pools.claims("small");
    const first = await claims.claim({ ttlMs: 60_000 });
    const late = claims.claim({ ttlMs: 60_000, signal: AbortSignal.timeout(1500) });
    await expect(late).rejects.toThrow();
    const next = claims.claim({ ttlMs: 60_000 });
    await claims.release(first.id);
    await claims.release((await next).id);
  });

  it("that is not there, or too small, is refused by name", async () => {
    await expect(pools.backend("nowhere")).rejects.toMatchObject({
      failure: "UNAVAILABLE",
      message: expect.stringMatching(/no sandbox pool "nowhere"; known: .*python/u) as string,
    });
    const large = backend.open({ limits: { memoryMiB: 4096 } });
    await expect(large).rejects.toThrow(/sandbox pool "python" .*memoryMiB 4096/u);
  });

  it("leaves nothing when it is deleted", async () => {
    await using _held = await backend.open();
    await pools.cluster.kubectl(["delete", "sandboxpool", "--all"]);
    await waitFor(async () => (await pools.pods()).length === 0, { what: "all pods to go", timeoutMs: 60_000 });
    expect((await pools.cluster.kubectl(["get", "networkpolicy", "--no-headers"])).text).toMatch(/No resources|^$/u);
  });
});

describe("episodes of code", () => {
  const question = "Print twice the number that is read.";
  const tests = {
    kind: "stdin",
    cases: [
      { input: "2\n", output: "4\n" },
      { input: "21\n", output: "42\n" },
    ],
  };
  const right = "```python\nprint(2 * int(input()))\n```";
  const wrong = "```python\nprint(input())\n```";

  it(
    "are right, or fail for our sake, whatever happens to their pods; nothing is left",
    { timeout: 240_000 },
    async () => {
      await pools.pool("episodes", { warm: 6, max: 12, memoryMiB: 1024, diskMiB: 512 });
      await using sandboxes = new Sandboxes({ source: pools.source });
      const code = codeEnvironment(sandboxes);
      const outcomes = { right: 0, wrong: 0, ours: 0, why: new Set<string>() };
      let left = 12;
      const play = async (isRight: boolean): Promise<void> => {
        const args = { question, tests, memoryMiB: 200, sandbox: { backend: "kubernetes", pool: "episodes" } };
        const environment = code.create(args);
        try {
          await environment.reset({ seed: 1 });
          const { reward } = await environment.step(isRight ? right : wrong, {});
          expect(reward).toBe(isRight ? 1 : 0);
          outcomes[isRight ? "right" : "wrong"] += 1;
        } catch (error) {
          // I6: a pod that was killed is no reward of 0.
          if (!(error instanceof EpisodeError)) throw error;
          expect(error.failureClass).toBe("INFRASTRUCTURE");
          outcomes.ours += 1;
          outcomes.why.add(error.message.slice(0, 60));
        } finally {
          await environment.close();
        }
      };
      const player = async (): Promise<void> => {
        while (left-- > 0) await play(left % 2 === 0);
      };
      const playing = Promise.all([player(), player(), player()]);
      const over = playing.then(
        () => true,
        () => true,
      );
      while (!(await Promise.race([over, sleep(5000).then(() => false)]))) {
        const [claimed] = await pools.cluster.kube.list(PODS, { labels: SANDBOX_LABELS.claim });
        if (claimed) await pools.cluster.kube.delete(PODS, claimed.metadata.name, { graceSeconds: 0 });
      }
      await playing;
      expect(outcomes.right + outcomes.wrong + outcomes.ours).toBe(12);
      expect(Math.min(outcomes.right, outcomes.wrong), [...outcomes.why].join("; ")).toBeGreaterThan(1);
      const claimed = async () => (await pools.cluster.kube.list(PODS, { labels: SANDBOX_LABELS.claim })).length;
      await waitFor(async () => (await claimed()) === 0, { what: "all claimed pods to go", timeoutMs: 60_000 });
    },
  );
});
