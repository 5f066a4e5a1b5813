// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import type { Sandbox } from "../sandbox.ts";
import { ProcessBackend } from "./process-backend.ts";
import { seccompFilter } from "./seccomp.ts";

const sh = (script: string): string[] => ["sh", "-c", script];
const LONG = `sleep 4712.${process.pid}`;
const BACKEND = join(import.meta.dirname, "process-backend.ts");

function running(): string[] {
  const commandOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
    } catch {
      return "";
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/u.test(name))
    .map(commandOf)
    .filter((line) => line.startsWith(LONG));
}

/** Loads a seccomp filter from standard input, then runs the rest of its arguments. */
const FILTERED = `
import ctypes, os, struct, sys
code = sys.stdin.buffer.read()
libc, kept = ctypes.CDLL(None), ctypes.create_string_buffer(code, len(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("<H6xQ", len(code) // 8, ctypes.addressof(kept)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])`;

describe.runIf(canHaveSandboxes && process.arch === "x64")("a sandbox of level C", () => {
  let backend: ProcessBackend;
  let sandbox: Sandbox;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-lite-test-"));

  beforeAll(async () => {
    backend = await ProcessBackend.start();
    sandbox = await backend.open({ level: "C", limits: { memoryMiB: 100, diskMiB: 20, processes: 40 } });
  });

  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it("is what there is where user namespaces are refused, and says why the others are not", async () => {
    const program = `import { ProcessBackend } from "${BACKEND}";
      await using backend = await ProcessBackend.start();
      await using sandbox = await backend.open();
      console.log(backend.level, sandbox.level, (await sandbox.exec(["echo", "hello"]).result).stdout);
      await backend.open({ level: "B" }).catch((error) => console.log(error.failure, error.message));`;
    const command = ["-c", FILTERED, process.execPath, "--input-type=module", "--eval", program];
    // As in a pod with the default profile: no unshare, no mount, no clone with a new namespace.
    const input = seccompFilter("x64", { network: "loopback" });
    const { stdout, stderr } = spawnSync("/usr/bin/python3", command, { input, encoding: "utf8", timeout: 30_000 });
    expect(stdout + stderr).toMatch(/^C C hello\n\nUNAVAILABLE [^]*level B: [^]*namespace/u);
  });

  it("runs commands with their output, input, variables and folder", async () => {
    await sandbox.upload([{ path: "sub/a", content: "" }]);
    const options = { stdin: "hi\n", env: { V: "there" }, cwd: "sub" };
    const { stdout, stderr, exitCode } = await sandbox.exec(
      sh('read x; echo "$x $V $(pwd)"; echo "$HOME" >"$TMPDIR/f"; cat "$TMPDIR/f"; echo oops >&2; exit 3'),
      options,
    ).result;
    expect([stdout, stderr, exitCode]).toEqual([
      `hi there ${sandbox.workspace}/sub\n${sandbox.workspace}\n`,
      "oops\n",
      3,
    ]);
    expect(await sandbox.exec(["no-such-program"]).result).toMatchObject({ exitCode: 127, failure: undefined });
    expect(await sandbox.exec(sh("kill -9 $$")).result).toMatchObject({ exitCode: 137, failure: undefined });
  });

  it("ends everything that a command started, with it, at its deadline, and when it is cancelled", async () => {
    await sandbox.exec(sh(`setsid ${LONG} </dev/null >/dev/null 2>&1 & sleep 0.1`)).result;
    expect(running()).toEqual([]);
    const late = await sandbox.exec(sh(`setsid ${LONG} & ${LONG}`), { deadlineMs: 500 }).result;
    expect(late).toMatchObject({ exitCode: 137, failure: "DEADLINE" });
    expect(running()).toEqual([]);
    const stop = new AbortController();
    const cancelled = sandbox.exec(sh(`setsid ${LONG} & ${LONG}`), { signal: stop.signal });
    await waitFor(() => running().length > 0, { what: "the command to run" });
    stop.abort(new Error("no longer wanted"));
    await expect(cancelled.result).rejects.toThrow("no longer wanted");
    expect(running()).toEqual([]);
  });

  it("outlives a fork bomb, which is ended whole", async () => {
    const bomb = `import os\nwhile True:\n try:\n  if os.fork() == 0: os.setsid(); os.execvp("sleep", "${LONG}".split())\n except OSError: pass`;
    expect(await sandbox.exec(["python3", "-c", bomb]).result).toMatchObject({ failure: "PROCESSES" });
    expect(running()).toEqual([]);
    expect((await sandbox.exec(["echo", "still"]).result).stdout).toBe("still\n");
  });

  it("names a flood of output, and a file that is too large", async () => {
    expect((await sandbox.exec(["yes"], { maxTotalBytes: 1_000_000 }).result).failure).toBe("OUTPUT");
    const large = await sandbox.exec(["head", "-c", "30000000", "/dev/zero"], { maxTotalBytes: 1e8 }).result;
    expect(large.failure).toBe(undefined);
    expect(await sandbox.exec(sh("exec head -c 30000000 /dev/zero >big")).result).toMatchObject({ failure: "DISK" });
  });

  it("passes files in and out, and never through a link to the outside", async () => {
    await sandbox.upload([{ path: "d/x.sh", content: "echo x", executable: true }]);
    await sandbox.exec(sh(`ln -s /etc/passwd d/link; ln -s ${folder} out; mkfifo d/pipe; touch d/empty`)).result;
    const files = await sandbox.download(["d", "none"]);
    expect(files.map(({ path, executable }) => [path, executable]).sort()).toEqual([
      ["d/empty", false],
      ["d/x.sh", true],
    ]);
    await expect(sandbox.upload([{ path: "out/planted", content: "x" }])).rejects.toMatchObject({
      name: "FileConflictError",
    });
    expect(existsSync(join(folder, "planted"))).toBe(false);
  });

  it("is a fork of a prepared state: what one writes no other sees", async () => {
    writeFileSync(join(folder, "a"), "first");
    await using prepared = await backend.prepare(folder);
    await using one = await backend.open({ level: "C", prepared });
    await using other = await backend.open({ level: "C", prepared });
    await one.exec(sh("echo changed > a")).result;
    expect((await other.exec(sh("cat a")).result).stdout).toBe("first");
    expect(readFileSync(join(prepared.path, "a"), "utf8")).toBe("first");
  });

  it("has no network of its own, and is not opened without one where it is asked for", async () => {
    await expect(backend.open({ level: "C", reach: ["127.0.0.1:1"] })).rejects.toThrow(/level C has no network/u);
    const open = backend.open({ level: "C", network: "loopback" });
    await expect(open).rejects.toMatchObject({ failure: "UNAVAILABLE", message: /level A or B/u });
  });

  it("ends when it is closed, with its files, whatever their modes are", async () => {
    const own = await backend.open({ level: "C" });
    await own.exec(sh("mkdir -p closed/d; touch closed/d/f; chmod 0 closed/d closed")).result;
    const execution = own.exec(sh(`setsid ${LONG} & ${LONG}`));
    await waitFor(() => running().length > 0, { what: "the command to run" });
    await Promise.all([own.close(), own.close()]);
    expect([running(), existsSync(dirname(own.workspace))]).toEqual([[], false]);
    await expect(execution.result).rejects.toMatchObject({ name: "SandboxError", failure: "CLOSED" });
    expect(() => own.exec(["true"])).toThrow(/was closed/u);
  });

  it("ends when its time is over, and a keeper that somebody ends is a loss", async () => {
    await using own = await backend.open({ level: "C", ttlMs: 1000 });
    await expect(own.exec(sh("sleep 60")).result).rejects.toMatchObject({ failure: "EXPIRED" });
    expect(() => own.exec(["true"])).toThrow(/longer ttlMs/u);
    await using other = await backend.open({ level: "C" });
    const execution = other.exec(sh("echo $PPID; sleep 60"));
    const first = await execution.chunks()[Symbol.asyncIterator]().next();
    process.kill(Number(Buffer.from((first.value?.data ?? []) as Uint8Array).toString()), "SIGKILL");
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
  });

  it("leaves nothing when its owner is killed", async () => {
    const program = `import { ProcessBackend } from "${BACKEND}";
      const backend = await ProcessBackend.start();
      const sandbox = await backend.open({ level: "C" });
      console.log(sandbox.workspace);
      sandbox.exec(["sh", "-c", "setsid ${LONG} & ${LONG}"]);
      setInterval(() => undefined, 50);`;
    const owner = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: "pipe" });
    let workspace = "";
    owner.stdout.on("data", (data: Buffer) => (workspace += data.toString().trim()));
    await waitFor(() => running().length >= 2, { what: "its command to run", timeoutMs: 30_000 });
    owner.kill("SIGKILL");
    await waitFor(() => running().length === 0, { what: "its processes to end" });
    await waitFor(async () => {
      await using _next = await ProcessBackend.start();
      return workspace !== "" && !existsSync(dirname(workspace));
    });
  });
});
