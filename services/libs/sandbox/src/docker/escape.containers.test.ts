// SPDX-License-Identifier: Apache-2.0
// The escape suite against containers: every attack is held, and gets through when its guards are away.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PRELUDE, type Targets } from "../../test-support/attacks.ts";
import {
  type ContainerAttack,
  IN_CONTAINERS,
  NOT_STOPPED_IN_CONTAINERS,
} from "../../test-support/container-attacks.ts";
import { DAEMON_ATTACKS } from "../../test-support/daemon-attacks.ts";
import { daemonProgram } from "../../test-support/daemon-program.ts";
import { type HostTargets, openHostTargets } from "../../test-support/host-targets.ts";
import type { Sandbox } from "../sandbox.ts";
import { CONTAINER_UID } from "./container-settings.ts";
import { DockerBackend } from "./docker-backend.ts";
import { CONTAINER_GUARDS, type ContainerGuard } from "./guards.ts";

const IMAGE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
const DOCS = readFileSync(join(import.meta.dirname, "../../../../../docs/sandboxes.md"), "utf8");
const limits = { memoryMiB: 100, diskMiB: 20, diskFiles: 500, processes: 20, openFiles: 100 };
/** They leave their sandbox full. */
const BOMBS = new Set<ContainerGuard>(["memory", "processes", "disk", "disk files", "open files"]);

const stack = new AsyncDisposableStack();
const sandboxes = new Map<string, Promise<Sandbox>>();
let host: HostTargets;

/** One for all attacks on the same guards; nobody ends it, and a bomb has one of its own. */
async function sandboxWithout(guards: readonly ContainerGuard[]): Promise<Sandbox> {
  const key = guards.join();
  const open = async (): Promise<Sandbox> => {
    const options = { daemonPath: daemonProgram(), image: IMAGE, hostFolder: host.targets.folder };
    const backend = stack.use(await DockerBackend.start({ ...options, without: new Set(guards) }));
    return await backend.open({ limits });
  };
  const opening = sandboxes.get(key) ?? open();
  sandboxes.set(key, opening);
  return await opening;
}

async function outcome(attack: Pick<ContainerAttack, "script">, sandbox: Sandbox): Promise<string> {
  const victim = await host.startVictim(CONTAINER_UID);
  try {
    const prepared = host.targets.secret;
    const targets: Targets = { ...host.targets, prepared, neighbour: "", victim: victim.pid ?? 0 };
    const program = `import signal\n${PRELUDE}${attack.script}`;
    const command = ["python3", "-c", program, JSON.stringify(targets)];
    return (await sandbox.exec(command, { stdin: "" }).result).stdout;
  } finally {
    victim.kill("SIGKILL");
  }
}

async function isWell(sandbox: Sandbox): Promise<boolean> {
  return (await sandbox.exec(["echo", "well"]).result).stdout === "well\n";
}

beforeAll(async () => {
  host = stack.use(await openHostTargets());
});

afterAll(async () => {
  await stack.disposeAsync();
});

describe("the attacks on containers", () => {
  it("are at least 40, and each guard has one that needs it", () => {
    expect(IN_CONTAINERS.length + DAEMON_ATTACKS.length).toBeGreaterThanOrEqual(40);
    const needed = new Set(IN_CONTAINERS.flatMap(({ guards }) => guards));
    expect(CONTAINER_GUARDS.filter((guard) => !needed.has(guard))).toEqual([]);
  });
});

const stopped = IN_CONTAINERS.filter(({ name }) => !NOT_STOPPED_IN_CONTAINERS.includes(name));

describe.each(stopped)("a command in a container that $name", (attack) => {
  const isBomb = attack.guards.some((guard) => BOMBS.has(guard));

  it("is held", async () => {
    const sandbox = await sandboxWithout([]);
    if (!isBomb) {
      expect(await outcome(attack, sandbox)).not.toContain("ESCAPED");
      return;
    }
    await using backend = await DockerBackend.start({ daemonPath: daemonProgram(), image: IMAGE });
    await using own = await backend.open({ limits });
    expect(await outcome(attack, own)).not.toContain("ESCAPED");
    expect(await isWell(own)).toBe(true);
  });

  it.runIf(attack.guards.length > 0)(`escapes without: ${attack.guards.join(", ")}`, async () => {
    expect(await outcome(attack, await sandboxWithout(attack.guards))).toContain("ESCAPED");
  });
});

it.each(NOT_STOPPED_IN_CONTAINERS)(
  "a container does not stop a command that %s, as docs/sandboxes.md says",
  async (name) => {
    const attack = IN_CONTAINERS.find((each) => each.name === name);
    expect(attack && (await outcome(attack, await sandboxWithout([])))).toContain("ESCAPED");
    expect(DOCS).toContain(`- ${name}`);
  },
);

describe.each(DAEMON_ATTACKS)("a command in a container that $name", (attack) => {
  it("is held", async () => {
    const sandbox = await sandboxWithout([]);
    expect(await outcome(attack, sandbox)).not.toContain("ESCAPED");
    expect(await isWell(sandbox)).toBe(true);
  });
});

it("a command in a container that talks to the container engine finds no socket of it", async () => {
  const script = `escaped(any(os.path.exists(p) for p in ("/var/run/docker.sock", "/run/docker.sock")))`;
  expect(await outcome({ script }, await sandboxWithout([]))).toBe("");
});
