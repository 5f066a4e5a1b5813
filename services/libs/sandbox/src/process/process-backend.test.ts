// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { describePromises } from "../../test-support/promises.ts";
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

describe.runIf(canHaveSandboxes)("a sandbox", () => {
  let backend: ProcessBackend;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-sandbox-test-"));

  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });

  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it("has empty folders of its own where it is to, and nobody else sees them", async () => {
    const emptyFolders = ["/app", "/srv/a b", "/logs"];
    await using one = await backend.open({ emptyFolders, limits: { diskMiB: 8 } });
    await using other = await backend.open({ emptyFolders });
    const made = await one.exec(sh("touch /app/x '/srv/a b/y' && rm -rf /logs; touch /srv/no; ls / /app '/srv/a b'"))
      .result;
    expect(made).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/srv\/no.*Read-only/su) });
    expect(made.stdout).toMatch(/^app$.*^logs$.*^\/app:\nx\n.*^\/srv\/a b:\ny\n/msu);
    expect(await one.exec(sh("cat /app/x")).result).toMatchObject({ exitCode: 0 });
    expect(await other.exec(sh("ls /app '/srv/a b'")).result).toMatchObject({ stdout: "/app:\n\n/srv/a b:\n" });
    const full = sh("head -c 20000000 /dev/zero >/app/big");
    expect(await one.exec(full).result).toMatchObject({ exitCode: 1, failure: "DISK" });
    await expect(backend.open({ emptyFolders, level: "C" })).rejects.toThrow(/\/app needs level A or B/u);
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

  describePromises({
    backend: () => backend,
    limits: { memoryMiB: 100, diskMiB: 20, processes: 40 },
    memory: () => ({ exitCode: 137, failure: backend.level === "A" ? "MEMORY" : undefined }),
    processes: () => (backend.level === "A" ? "PROCESSES" : undefined),
  });

  it("does not take for ours what a command says of bubblewrap", async () => {
    await using own = await backend.open();
    // Saying what bubblewrap says when it fails is no way out of a bad reward.
    const forged = own.exec(sh("echo 'bwrap: Creating new namespace failed' >&2; exit 1")).result;
    expect(await forged).toMatchObject({ exitCode: 1, failure: undefined });
  });

  it("writes no file of the host through a link", async () => {
    await using own = await backend.open();
    const target = join(folder, "planted");
    await own.exec(sh(`ln -s ${folder} out; ln -s ${target} file`)).result;
    await own.upload([{ path: "file", content: "x" }]);
    const upload = own.upload([{ path: "out/planted", content: "x" }]);
    await expect(upload).rejects.toMatchObject({ name: "FileConflictError" });
    expect(existsSync(target)).toBe(false);
  });

  it("does not change a prepared state", async () => {
    writeFileSync(join(folder, "a"), "first");
    await using prepared = await backend.prepare(folder);
    await using one = await backend.open({ prepared });
    await one.exec(sh("echo changed > a")).result;
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

  it("ends with everything in it when it is closed", async () => {
    const own = await backend.open();
    own.exec(sh(`setsid ${LONG} & ${LONG}`));
    await waitFor(() => running().length > 0, { what: "the command to run" });
    await own.close();
    expect(running()).toEqual([]);
  });

  it("that somebody else ends is a loss", async () => {
    await using own = await backend.open();
    const execution = own.exec(sh("echo up; sleep 60"));
    await execution.chunks()[Symbol.asyncIterator]().next();
    execFileSync("pkill", ["-KILL", "-P", String(process.pid), "-f", "exec sleep"]);
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
  });

  it("is refused where too many are open", async () => {
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
