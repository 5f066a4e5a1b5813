// SPDX-License-Identifier: Apache-2.0
// What every backend promises, whatever it keeps its sandboxes in. Their images and machines have sh, coreutils, tar and python3.
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PolicyFailure } from "../src/failure.ts";
import type { ExecResult, Sandbox, SandboxBackend } from "../src/sandbox.ts";
import { describeReach } from "./reach-promises.ts";

export interface Promised {
  readonly backend: () => SandboxBackend;
  /** Of the sandbox that commands run in: 100 MiB of memory at least. */
  readonly limits: { readonly memoryMiB: number; readonly diskMiB: number; readonly processes: number };
  /** How a command ends that takes twice the memory. */
  readonly memory: () => Partial<ExecResult>;
  /** How a command ends that starts 100 processes. */
  readonly processes: () => PolicyFailure | undefined;
}

const sh = (script: string): string[] => ["sh", "-c", script];

/** Known by its number, which no other run has. */
const LONG = `sleep 4711.${process.pid}`;

export function describePromises({ backend, limits, memory, processes }: Promised): void {
  let sandbox: Sandbox;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-promises-"));

  beforeAll(async () => {
    sandbox = await backend().open({ limits });
  });

  afterAll(async () => {
    await sandbox?.close();
    rmSync(folder, { recursive: true });
  });

  /** Seen from inside, where all processes of the sandbox are. */
  async function running(): Promise<number> {
    const lines = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '";
    const { stdout } = await sandbox.exec(sh(`${lines} | grep -c 'slee[p] ${LONG.slice(6)}' || true`)).result;
    return Number(stdout);
  }

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

    it("several at a time", async () => {
      const all = Array.from({ length: 8 }, (_, i) => {
        const meet = `mkdir -p met; touch met/${i}; until [ "$(ls met | wc -l)" = 8 ]; do sleep 0.05; done`;
        return sandbox.exec(sh(`seq 1 2000; ${meet}; exit ${i}`), { deadlineMs: 60_000 }).result;
      });
      const results = await Promise.all(all);
      expect(results.map(({ exitCode }) => exitCode)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      expect(new Set(results.map(({ stdout }) => stdout)).size).toBe(1);
    });

    it("each with its own end, whatever little memory it may have", async () => {
      const codes = new Set<number>();
      for (let i = 0; i < 40; i += 1) codes.add((await sandbox.exec(sh("exit 3")).result).exitCode);
      expect([...codes]).toEqual([3]);
    });

    it("that do not exist: it is the command's failure, not ours", async () => {
      expect(await sandbox.exec(["no-such-program"]).result).toMatchObject({ exitCode: 127, failure: undefined });
    });

    it("until their deadline, and all that they started", async () => {
      const result = await sandbox.exec(sh(`setsid ${LONG} & ${LONG}`), { deadlineMs: 500 }).result;
      expect(result).toMatchObject({ exitCode: 137, failure: "DEADLINE" });
      await waitFor(async () => (await running()) === 0, { what: "the command's processes to end" });
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
      await sandbox.exec(sh(`setsid ${LONG} </dev/null >/dev/null 2>&1 & sleep 0.1`)).result;
      await waitFor(async () => (await running()) === 0, { what: "the daemon to end" });
      const orphans = `(setsid ${LONG} </dev/null >/dev/null 2>&1 &); sleep 0.1; kill -9 $PPID; sleep 1`;
      await sandbox.exec(sh(orphans)).result;
      await waitFor(async () => (await running()) === 0, { what: "the orphan to end" });
    });

    it("and leaves no zombies", async () => {
      await sandbox.exec(sh("for i in 1 2 3 4 5; do (setsid sleep 0.05 &) ; done; sleep 0.3")).result;
      const zombies = async () =>
        (await sandbox.exec(sh("grep -l '^State:.Z' /proc/[0-9]*/status || true")).result).stdout;
      await waitFor(async () => (await zombies()) === "", { what: "zombies to be waited for" });
    });

    it("whose output is bounded: the middle is cut, and a flood ends them", async () => {
      const long = await sandbox.exec(sh("seq 1 100000"), { maxOutputBytes: 1000 }).result;
      expect(long.stdout).toMatch(/^1\n2\n[^]*\n… \d+ bytes of output left out …\n[^]*100000\n$/u);
      expect(long).toMatchObject({ exitCode: 0, failure: undefined });
      expect(long.cutBytes).toBeGreaterThan(500_000);
      const whole = await sandbox.exec(sh("seq 1 2000000"), { maxOutputBytes: 64 << 20 }).result;
      expect(whole.stdout.length).toBe(14_888_896);
      const flood = await sandbox.exec(["yes"], { maxTotalBytes: 1_000_000 }).result;
      expect(flood.failure).toBe("OUTPUT");
    });

    it("whose output can be followed from any byte on", async () => {
      const execution = sandbox.exec(sh("echo abc; sleep 0.2; echo def"));
      await execution.result;
      const parts: string[] = [];
      for await (const { sequence, data } of execution.chunks(2))
        parts.push(`${sequence}:${String(Buffer.from(data))}`);
      expect(parts.join("")).toMatch(/^2:c\n(4:)?def\n$/u);
    });
  });

  describe("names the limit that a command ran into", () => {
    it("memory", async () => {
      const bytes = 2 * limits.memoryMiB * 1024 * 1024;
      expect(await sandbox.exec(["python3", "-c", `x = bytearray(${bytes})`]).result).toMatchObject(memory());
      expect((await sandbox.exec(["echo", "still there"]).result).stdout).toBe("still there\n");
    });

    it("processes", async () => {
      const bomb = "import os, time\nfor i in range(100):\n if os.fork() == 0: time.sleep(9)\ntime.sleep(9)";
      expect((await sandbox.exec(["python3", "-c", bomb]).result).failure).toBe(processes());
    });

    it("disk, and files that do not fit are not ours to answer for", async () => {
      const bytes = Math.round(1.5 * limits.diskMiB * 1024 * 1024);
      const filled = sandbox.exec(sh(`head -c ${bytes} /dev/zero > big || exit 1`));
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
      await sandbox.exec(sh("ln -s /usr out; ln -s /usr/planted file")).result;
      await sandbox.upload([{ path: "file", content: "x" }]);
      const upload = sandbox.upload([{ path: "out/planted", content: "x" }]);
      await expect(upload).rejects.toMatchObject({ name: "FileConflictError" });
      expect((await sandbox.exec(sh("cat file; ls /usr/planted")).result).stdout).toBe("x");
      expect(await sandbox.download(["out"])).toEqual([]);
    });

    it("within bounds", async () => {
      await sandbox.exec(sh("truncate -s 1T sparse")).result;
      const download = sandbox.download(["sparse"], { maxBytes: 1_000_000 });
      await expect(download).rejects.toMatchObject({ name: "LimitError", failure: "OUTPUT" });
      await expect(sandbox.download(["../x"])).rejects.toThrow(/^paths\[0\]: /u);
    });
  });

  it("is a fork of a prepared state: what one writes no other sees", async () => {
    writeFileSync(join(folder, "a"), "first");
    symlinkSync("a", join(folder, "link"));
    await using prepared = await backend().prepare(folder);
    await using one = await backend().open({ prepared });
    await using other = await backend().open({ prepared });
    await one.exec(sh("echo changed > a; mkdir d; rm -r d; mkdir d; touch d/b")).result;
    expect((await other.exec(sh("cat link; ls")).result).stdout).toBe("firsta\nlink\n");
    expect((await one.exec(sh("cat a; ls")).result).stdout).toBe("changed\na\nd\nlink\n");
  });

  it("ends with everything in it when it is closed, once", async () => {
    const own = await backend().open();
    const execution = own.exec(sh(`echo up; setsid ${LONG} & ${LONG}`));
    await execution.chunks()[Symbol.asyncIterator]().next();
    await Promise.all([own.close(), own.close()]);
    await expect(execution.result).rejects.toMatchObject({ name: "SandboxError", failure: "CLOSED" });
    expect(() => own.exec(["true"])).toThrow(/was closed/);
  });

  it("ends when its time is over, and says that this is not the policy's fault", async () => {
    await using own = await backend().open({ ttlMs: 2000 });
    const late = async () => await own.exec(sh("sleep 60")).result;
    await expect(late()).rejects.toMatchObject({ failure: "EXPIRED" });
    expect(() => own.exec(["true"])).toThrow(/longer ttlMs/);
  });

  describeReach(backend, limits);

  it("is refused where a setting is out of range", async () => {
    const wrong = backend().open({ limits: { memoryMiB: 1, cpus: 0 }, ttlMs: Number.NaN });
    await expect(wrong).rejects.toThrow(/limits.memoryMiB: [^]*limits.cpus: [^]*ttlMs: /u);
  });
}
