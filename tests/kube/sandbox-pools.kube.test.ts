// SPDX-License-Identifier: Apache-2.0
// Sandboxes in pods: claimed, used, lost, expired, and gone afterwards.
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PODS } from "@whetstone/kube";
import type { KubernetesBackend, Sandbox } from "@whetstone/sandbox";
import { waitFor } from "@whetstone/testkit";
import { sleep } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SANDBOX_LABELS } from "../../services/controller/src/operator/sandbox-pool/pods.ts";
import { codeEnvironment } from "../../services/env-runner/src/environments/code.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
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
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await backend.open({ limits: { memoryMiB: 200, diskMiB: 60, processes: 40 } });
  });
  afterAll(async () => {
    await sandbox.close();
  });

  describe("runs commands", () => {
    it("with their output, input, variables and folder", async () => {
      const command = sh('read x; echo "$x $V $(pwd)"; echo oops >&2; exit 3');
      await sandbox.upload([{ path: "sub/a", content: "" }]);
      const options = { stdin: "hi\n", env: { V: "there" }, cwd: "sub" };
      expect(await sandbox.exec(command, options).result).toEqual({
        exitCode: 3,
        failure: undefined,
        stdout: "hi there /workspace/sub\n",
        stderr: "oops\n",
        cutBytes: 0,
      });
    });

    it("that talk", async () => {
      const execution = sandbox.exec(sh("while read line; do echo got $line; done"));
      const chunks = execution.chunks()[Symbol.asyncIterator]();
      for (const word of ["a", "b"]) {
        await execution.write(`${word}\n`);
        expect(String(Buffer.from((await chunks.next()).value?.data as Uint8Array))).toBe(`got ${word}\n`);
      }
      execution.endInput();
      expect((await execution.result).exitCode).toBe(0);
    });

    it("that do not exist: it is the command's failure, not ours", async () => {
      expect(await sandbox.exec(["no-such-program"]).result).toMatchObject({ exitCode: 127, failure: undefined });
    });

    it("until their deadline, and all that they started", async () => {
      const result = await sandbox.exec(sh("setsid sleep 4711 & sleep 4711"), { deadlineMs: 500 }).result;
      expect(result).toMatchObject({ exitCode: 137, failure: "DEADLINE" });
      await expectNone("4711");
    });

    it("until they are cancelled, or killed", async () => {
      const stop = new AbortController();
      const cancelled = sandbox.exec(sh("sleep 60"), { signal: stop.signal });
      stop.abort(new Error("no longer wanted"));
      await expect(cancelled.result).rejects.toThrow("no longer wanted");
      const killed = sandbox.exec(sh("echo up; sleep 60"));
      await killed.chunks()[Symbol.asyncIterator]().next();
      killed.kill();
      expect(await killed.result).toMatchObject({ exitCode: 137, failure: undefined });
    });

    it("whose daemons end with them, whatever they do to their keeper", async () => {
      await sandbox.exec(sh("setsid sleep 4712 </dev/null >/dev/null 2>&1 & sleep 0.1")).result;
      await expectNone("4712");
      await sandbox.exec(sh("(setsid sleep 4713 </dev/null >/dev/null 2>&1 &); sleep 0.1; kill -9 $PPID; sleep 9"))
        .result;
      await expectNone("4713");
    });

    it("whose output is bounded: the middle is cut, and a flood ends them", async () => {
      const long = await sandbox.exec(sh("seq 1 100000"), { maxOutputBytes: 1000 }).result;
      expect(long.stdout).toMatch(/^1\n2\n[^]*\n… \d+ bytes of output left out …\n[^]*100000\n$/u);
      const whole = await sandbox.exec(sh("seq 1 2000000 | md5sum; seq 1 2000000"), { maxOutputBytes: 64 << 20 })
        .result;
      expect(whole.stdout.length).toBeGreaterThan(14_000_000);
      const flood = await sandbox.exec(["yes"], { maxTotalBytes: 1_000_000 }).result;
      expect(flood.failure).toBe("OUTPUT");
    });

    async function expectNone(mark: string): Promise<void> {
      const search = sh(
        `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep [${mark[0]}]${mark.slice(1)}' || true`,
      );
      await waitFor(async () => (await sandbox.exec(search).result).stdout.trim() === "0", { what: "it to end" });
    }
  });

  describe("names the limit that a command ran into", () => {
    it("memory", async () => {
      const result = await sandbox.exec(["python3", "-c", "x = bytearray(400_000_000)"]).result;
      expect(result).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("MemoryError") as string });
      const many =
        "import os\nfor i in range(4):\n if os.fork() == 0: x = bytearray(150_000_000); os.wait()\nos.wait(); os.abort()";
      expect(await sandbox.exec(["python3", "-c", many]).result).toMatchObject({ failure: "MEMORY" });
      expect((await sandbox.exec(["echo", "still there"]).result).stdout).toBe("still there\n");
    });

    it("processes", async () => {
      const bomb = "import os, time\nfor i in range(100):\n if os.fork() == 0: time.sleep(9)";
      expect((await sandbox.exec(["python3", "-c", bomb]).result).failure).toBe("PROCESSES");
    });

    it("disk, and files that do not fit are not ours to answer for", async () => {
      const filled = sandbox.exec(sh("head -c 80000000 /dev/zero > big || exit 1"));
      expect(await filled.result).toMatchObject({ failure: "DISK" });
      const upload = sandbox.upload([{ path: "more", content: "x".repeat(1 << 20) }]);
      await expect(upload).rejects.toMatchObject({ name: "LimitError", failure: "DISK" });
      await sandbox.exec(["rm", "big"]).result;
    });
  });

  describe("passes files", () => {
    it("in and out, and only files", async () => {
      await sandbox.upload([{ path: "d/x.sh", content: "echo x", executable: true }]);
      await sandbox.exec(sh("ln -s /etc/passwd d/link; ln -s / d/root; mkfifo d/pipe; touch d/empty")).result;
      const files = await sandbox.download(["d", "none"]);
      expect(files.map(({ path, executable }) => [path, executable]).sort()).toEqual([
        ["d/empty", false],
        ["d/x.sh", true],
      ]);
    });

    it("never through a link to the outside", async () => {
      await sandbox.exec(sh("ln -s /tmp out; ln -s /proc/1 daemon; ln -s /tmp/planted file")).result;
      await sandbox.upload([{ path: "file", content: "x" }]);
      const upload = sandbox.upload([{ path: "out/planted", content: "x" }]);
      await expect(upload).rejects.toMatchObject({ name: "FileConflictError" });
      expect((await sandbox.exec(["ls", "/tmp"]).result).stdout).toBe("");
      expect(await sandbox.download(["daemon/environ", "daemon", "out"])).toEqual([]);
    });

    it("within bounds", async () => {
      await sandbox.exec(sh("truncate -s 1T sparse")).result;
      const download = sandbox.download(["sparse"], { maxBytes: 1_000_000 });
      await expect(download).rejects.toMatchObject({ name: "LimitError", failure: "OUTPUT" });
      await expect(sandbox.download(["../x"])).rejects.toThrow(/^paths\[0\]: /u);
    });
  });
});

describe("a pool", () => {
  it("begins sandboxes with a prepared state, which they do not share", async () => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-prepared-test-"));
    writeFileSync(join(folder, "a"), "first");
    symlinkSync("a", join(folder, "link"));
    try {
      await using prepared = await backend.prepare(folder);
      await using one = await backend.open({ prepared });
      await using other = await backend.open({ prepared });
      await one.exec(sh("echo changed > a")).result;
      expect((await other.exec(sh("cat link; ls")).result).stdout).toBe("firsta\nlink\n");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

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
      await using sandboxes = new Sandboxes(pools.source);
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
