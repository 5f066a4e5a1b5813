// SPDX-License-Identifier: Apache-2.0
// Sandboxes in a container whose /proc is masked, as nearly every container's is: the kernel lets nobody mount another.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { canHaveSandboxes } from "@whetstone/testkit";
import { beforeAll, describe, expect, it } from "vitest";

const BACKEND = join(import.meta.dirname, "process-backend.ts");
const LONG = `sleep 4713.${process.pid}`;
const COMMANDS = 30;

const OWNER = `
  import { ProcessBackend } from "${BACKEND}";
  const backend = await ProcessBackend.start();
  const sandbox = await backend.open();
  sandbox.exec("${LONG}".split(" "));
  setInterval(() => console.log("up"), 100);
`;

const PROGRAM = `
  import { spawn } from "node:child_process";
  import { readdirSync, readFileSync } from "node:fs";
  import { setTimeout as delay } from "node:timers/promises";
  import { ProcessBackend } from "${BACKEND}";
  const commandOf = (pid) => { try { return readFileSync("/proc/" + pid + "/cmdline", "utf8").replaceAll("\\0", " "); } catch { return ""; } };
  const left = () => readdirSync("/proc").filter((name) => commandOf(name).startsWith("${LONG}")).length;
  const noneLeft = async () => { for (let i = 0; i < 100 && left() > 0; i += 1) await delay(50); return left(); };
  const long = (sandbox) => sandbox.exec("${LONG}".split(" "));
  const failureOf = (execution) => execution.result.then(({ exitCode }) => exitCode, ({ failure }) => failure);
  const seen = {};
  await using backend = await ProcessBackend.start();
  const sandbox = await backend.open();
  seen.exits = [];
  for (let i = 0; i < ${COMMANDS}; i += 1) seen.exits.push((await sandbox.exec(["true"]).result).exitCode);
  seen.proc = (await sandbox.exec(["ls", "-a", "/proc"]).result).stdout.split("\\n").filter((name) => /\\d/.test(name));
  seen.orphans = (await sandbox.exec(["sh", "-c", "${LONG} & ${LONG} & exit 3"]).result).exitCode;
  seen.orphansLeft = await noneLeft();
  seen.deadline = (await sandbox.exec("${LONG}".split(" "), { deadlineMs: 300 }).result).failure;
  seen.deadlineLeft = await noneLeft();
  await using seeing = await backend.openWalled({ needsProc: true });
  const shell = async (script) => (await seeing.exec(["sh", "-c", script]).result).stdout;
  seen.self = await shell("cat /proc/self/comm");
  const other = long(sandbox);
  while (left() === 0) await delay(20);
  const theirs = readdirSync("/proc").filter((name) => commandOf(name).startsWith("${LONG}"));
  seen.named = await shell("head -c 200 /proc/" + process.pid + "/cmdline");
  const entries = [process.pid, ...theirs].flatMap((pid) => ["environ", "mem", "maps", "root", "cwd", "exe", "fd/0"].map((name) => "/proc/" + pid + "/" + name));
  seen.tried = entries.length;
  seen.entered = await shell("for entry in " + entries.join(" ") + "; do (head -c 1 $entry || readlink $entry) 2>/dev/null; done; true");
  seen.written = await shell("for file in sys/vm/swappiness sysrq-trigger " + process.pid + "/oom_score_adj; do (echo 1 >/proc/$file) 2>/dev/null && echo $file; done; true");
  other.kill();
  await other.result.catch(() => undefined);
  const closing = long(sandbox);
  while (left() === 0) await delay(20);
  seen.running = left();
  await sandbox.close();
  seen.closed = await failureOf(closing);
  seen.closedLeft = left();
  const brief = await backend.open({ ttlMs: 1500 });
  seen.expired = await failureOf(long(brief));
  seen.expiredLeft = await noneLeft();
  const owner = spawn(process.execPath, ["--input-type=module", "--eval", ${JSON.stringify(OWNER)}], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((up) => owner.stdout.once("data", up));
  while (left() === 0) await delay(20);
  owner.kill("SIGKILL");
  seen.ownerLeft = await noneLeft();
  console.log(JSON.stringify(seen));
`;

/** No process namespace of its own: by process ids it is known whose a sandbox is. */
const MASKED = ["--mount", "sh", "-c"];
const MASK = 'mount --bind /dev/null /proc/meminfo && exec "$@"';

describe.runIf(canHaveSandboxes && process.getuid?.() === 0)("a sandbox where /proc is masked", () => {
  let seen: Record<string, unknown>;

  beforeAll(() => {
    const node = [process.execPath, "--input-type=module", "--eval", PROGRAM];
    const options = { encoding: "utf8", timeout: 60_000 } as const;
    const { stdout, stderr } = spawnSync("unshare", [...MASKED, MASK, "sh", ...node], options);
    if (stdout === "") throw new Error(stderr);
    seen = JSON.parse(stdout) as typeof seen;
  }, 70_000);

  it("runs any number of commands, which see no process", () => {
    expect(seen["exits"]).toEqual(Array.from({ length: COMMANDS }, () => 0));
    expect(seen["proc"]).toEqual([]);
  });

  it("shows a program that needs /proc the container's, and lets it into no other process", () => {
    expect(seen["self"]).toBe("cat\n");
    expect(seen["named"]).toContain("--input-type=module");
    expect(seen).toMatchObject({ tried: 14, entered: "", written: "" });
  });

  it("ends what a command has started with the command, and with its deadline", () => {
    expect(seen).toMatchObject({ orphans: 3, orphansLeft: 0, deadline: "DEADLINE", deadlineLeft: 0 });
  });

  it("ends commands when it is closed, when its time is over, and when its owner is killed", () => {
    expect(seen).toMatchObject({ running: 1, closed: "CLOSED", closedLeft: 0 });
    expect(seen).toMatchObject({ expired: "EXPIRED", expiredLeft: 0, ownerLeft: 0 });
  });
});
