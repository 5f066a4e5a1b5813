// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import type { Sandbox } from "../sandbox.ts";
import { findHierarchies } from "./cgroup.ts";
import { ProcessBackend } from "./process-backend.ts";

const sh = (script: string): string[] => ["sh", "-c", script];

/** Known by its number, which no other run of this file has. */
const LONG = `sleep 4711.${process.pid}`;

/** Command lines of all processes that hold the mark. */
function running(mark = LONG): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/u.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .filter((line) => line.replaceAll("\0", " ").includes(mark));
}

function cgroupsOf(pid: number): string[] {
  return findHierarchies().parents.flatMap((parent) =>
    readdirSync(parent).filter((name) => name.startsWith(`whetstone-sandbox-${pid}-`)),
  );
}

describe.runIf(canHaveSandboxes)("a sandbox", { timeout: 60_000 }, () => {
  let backend: ProcessBackend;
  let sandbox: Sandbox;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-sandbox-test-"));

  beforeAll(async () => {
    backend = await ProcessBackend.start();
    sandbox = await backend.open({ limits: { memoryMiB: 100, diskMiB: 20, processes: 40 } });
  }, 60_000);

  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it("shows what it is to, also in a folder that nobody else may enter, and nothing beside it", async () => {
    const home = mkdtempSync(join(folder, "home-"), { encoding: "utf8" }); // Of mode 0700, as root's own is.
    mkdirSync(join(home, "shown"));
    for (const file of ["shown/code.js", "alone.js", "hidden.js"]) writeFileSync(join(home, file), file);
    const readable = [join(home, "shown"), join(home, "alone.js")];
    await using walled = await backend.openWalled({ readable });
    const read = await walled.exec(["cat", join(home, "shown/code.js"), join(home, "alone.js")]).result;
    expect(read).toMatchObject({ exitCode: 0, stdout: "shown/code.jsalone.js" });
    const tried = await walled.exec(sh(`cat ${home}/hidden.js; ls ${home}; echo x >${home}/shown/code.js`)).result;
    expect(tried).toMatchObject({ exitCode: 2, stdout: "alone.js\nshown\n" });
    expect(readFileSync(join(home, "shown/code.js"), "utf8")).toBe("shown/code.js");
    expect(readFileSync("/proc/self/mounts", "utf8")).not.toContain("/readable");
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
      // Saying what bubblewrap says when it fails is no way out of a bad reward.
      const forged = sandbox.exec(sh("echo 'bwrap: Creating new namespace failed' >&2; exit 1")).result;
      expect(await forged).toMatchObject({ exitCode: 1, failure: undefined });
    });

    it("until their deadline", async () => {
      const result = await sandbox.exec(sh(`setsid ${LONG} & ${LONG}`), { deadlineMs: 500 }).result;
      expect(result).toMatchObject({ exitCode: 137, failure: "DEADLINE" });
      await waitFor(() => running().length === 0, { what: "the command's processes to end" });
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

    it("whose daemons end with them", async () => {
      await sandbox.exec(sh(`setsid ${LONG} </dev/null >/dev/null 2>&1 & sleep 0.1`)).result;
      await waitFor(() => running().length === 0, { what: "the daemon to end" });
    });

    it("whose output is bounded: the middle is cut, and a flood ends them", async () => {
      const long = await sandbox.exec(sh("seq 1 100000"), { maxOutputBytes: 1000 }).result;
      expect(long.stdout).toMatch(/^1\n2\n[^]*\n… \d+ bytes of output left out …\n[^]*100000\n$/u);
      expect(long).toMatchObject({ exitCode: 0, failure: undefined });
      expect(long.cutBytes).toBeGreaterThan(500_000);
      const flood = await sandbox.exec(["yes"], { maxTotalBytes: 1_000_000 }).result;
      expect(flood.failure).toBe("OUTPUT");
    });
  });

  describe("names the limit that a command ran into", () => {
    it("memory", async () => {
      const result = await sandbox.exec(["python3", "-c", "x = bytearray(200_000_000)"]).result;
      expect(result).toMatchObject({ exitCode: 137, failure: backend.level === "A" ? "MEMORY" : undefined });
    });

    it("processes", async () => {
      const bomb = "import os, time\nfor i in range(100):\n if os.fork() == 0: time.sleep(9)";
      const result = await sandbox.exec(["python3", "-c", bomb]).result;
      expect(result.failure).toBe(backend.level === "A" ? "PROCESSES" : undefined);
    });

    it("disk, and files that do not fit are not ours to answer for", async () => {
      expect(await sandbox.exec(sh("head -c 30000000 /dev/zero > big || exit 1")).result).toMatchObject({
        failure: "DISK",
      });
      const upload = sandbox.upload([{ path: "more", content: "x" }]);
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
      const target = join(folder, "planted");
      await sandbox.exec(sh(`ln -s ${folder} out; ln -s ${target} file`)).result;
      await sandbox.upload([{ path: "file", content: "x" }]);
      await expect(sandbox.upload([{ path: "out/planted", content: "x" }])).rejects.toMatchObject({
        name: "FileConflictError",
      });
      expect(existsSync(target)).toBe(false);
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
    await using prepared = await backend.prepare(folder);
    await using one = await backend.open({ prepared });
    await using other = await backend.open({ prepared });
    await one.exec(sh("echo changed > a; mkdir d; rm -r d; mkdir d; touch d/b")).result;
    expect((await other.exec(sh("cat a; ls")).result).stdout).toBe("firsta\n");
    expect((await one.exec(sh("cat a; ls")).result).stdout).toBe("changed\na\nd\n");
    expect(readFileSync(join(prepared.path, "a"), "utf8")).toBe("first");
  });

  it("has a loopback of its own where it asks for one", async () => {
    const serve =
      "import socket; s = socket.create_server(('127.0.0.1', 8080)); print('up', flush=True); s.accept()[0].send(b'hello')";
    await using own = await backend.open({ network: "loopback" });
    const server = own.exec(["python3", "-c", serve]);
    await server.chunks()[Symbol.asyncIterator]().next();
    const ask = "import socket; print(socket.create_connection(('127.0.0.1', 8080)).recv(9))";
    expect((await own.exec(["python3", "-c", ask]).result).stdout).toBe("b'hello'\n");
  });

  it("ends with everything in it when it is closed, once", async () => {
    const own = await backend.open();
    const execution = own.exec(sh(`setsid ${LONG} & ${LONG}`));
    await waitFor(() => running().length > 0, { what: "the command to run" });
    await Promise.all([own.close(), own.close()]);
    expect(running()).toEqual([]);
    await expect(execution.result).rejects.toMatchObject({ name: "SandboxError", failure: "CLOSED" });
    expect(() => own.exec(["true"])).toThrow(/was closed/);
  });

  it("ends when its time is over, and says that this is not the policy's fault", async () => {
    await using own = await backend.open({ ttlMs: 1000 });
    const late = async () => await own.exec(sh("sleep 60")).result;
    await expect(late()).rejects.toMatchObject({ failure: "EXPIRED" });
    expect(() => own.exec(["true"])).toThrow(/longer ttlMs/);
  });

  it("that somebody else ends is a loss", async () => {
    await using own = await backend.open();
    const execution = own.exec(sh("echo up; sleep 60"));
    await execution.chunks()[Symbol.asyncIterator]().next();
    execFileSync("pkill", ["-KILL", "-P", String(process.pid), "-f", "timeout -s KILL"]);
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
  });

  it("is refused where a setting is out of range, or too many are open", async () => {
    const wrong = backend.open({ limits: { memoryMiB: 1, cpus: 0 }, ttlMs: Number.NaN });
    await expect(wrong).rejects.toThrow(/limits.memoryMiB: [^]*limits.cpus: [^]*ttlMs: /u);
    const small = await ProcessBackend.start({ maxSandboxes: 1 });
    await using _one = await small.open();
    await expect(small.open()).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  it("needs bubblewrap, and says how to get it", async () => {
    const program = `import { ProcessBackend } from "${import.meta.dirname}/process-backend.ts";
      import { SYSTEM_PATH } from "${import.meta.dirname}/keeper.ts";
      SYSTEM_PATH.PATH = "/nowhere";
      await ProcessBackend.start().catch((error) => console.log(error.failure, error.message));`;
    const said = execFileSync(process.execPath, ["--input-type=module", "--eval", program], { encoding: "utf8" });
    expect(said).toMatch(/^UNAVAILABLE .*apt-get install bubblewrap/u);
  });

  it("removes what was left of a sandbox that was just starting when its owner was killed, and nothing else", async () => {
    const { pid: gone } = spawnSync("true");
    const start = readFileSync("/proc/self/stat", "utf8").split(" ")[21] ?? "";
    const names = [`whetstone-sandbox-${gone}-1-1`, `whetstone-sandbox-${process.pid}-${start}-0`];
    const [left, own] = names.map((name) => spawn("sh", ["-c", `read x; true ${LONG}`, name]));
    await waitFor(() => running().length === 2);
    await using _next = await ProcessBackend.start();
    await waitFor(() => left?.signalCode === "SIGKILL", { what: "it to be killed" });
    expect(own?.signalCode).toBe(null);
    own?.kill("SIGKILL");
  });

  it("leaves nothing when its owner is killed", async () => {
    const program = `import { ProcessBackend } from "${import.meta.dirname}/process-backend.ts";
      const backend = await ProcessBackend.start();
      const sandbox = await backend.open();
      await backend.prepare("${folder}");
      sandbox.exec(["sh", "-c", "setsid ${LONG} & ${LONG}"]);
      setInterval(() => console.log("up"), 50);`;
    const owner = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: "pipe" });
    const { pid = 0 } = owner;
    await waitFor(() => running().length >= 3, { what: "its command to run", timeoutMs: 30_000 });
    owner.kill("SIGKILL");
    await waitFor(() => running().length === 0, { what: "its processes to end" });
    if (backend.level === "A") expect(cgroupsOf(pid)).not.toEqual([]);
    await waitFor(async () => {
      await using _next = await ProcessBackend.start();
      const prepared = readdirSync(join(tmpdir(), `whetstone-sandboxes-${process.getuid?.()}`, "prepared"));
      return cgroupsOf(pid).length === 0 && !prepared.some((name) => name.includes(`-${pid}-`));
    });
  });
});
