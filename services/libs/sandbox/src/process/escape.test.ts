// SPDX-License-Identifier: Apache-2.0
// The escape suite: every attack is held by the sandbox, and gets through when its guards are away.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Attack } from "../../test-support/attack.ts";
import { ATTACKS, PRELUDE, type Targets } from "../../test-support/attacks.ts";
import { type HostTargets, openHostTargets } from "../../test-support/host-targets.ts";
import { ENDED_AT_C, GUARDS_AT_C, NEIGHBOURS, NOT_STOPPED_AT_C } from "../../test-support/lite-attacks.ts";
import { canHaveSandboxes } from "@whetstone/testkit";
import type { ExecResult, SandboxLevel } from "../sandbox.ts";
import { SANDBOX_UID } from "./arguments.ts";
import { GUARDS } from "./guards.ts";
import { ProcessBackend } from "./process-backend.ts";

const DOCS = readFileSync(join(import.meta.dirname, "../../../../../docs/sandboxes.md"), "utf8");
const limits = { memoryMiB: 100, diskMiB: 20, diskFiles: 500, processes: 60, openFiles: 100 };
const backends = new Map<string, ProcessBackend>();
let host: HostTargets;
let [prepared, neighbour] = ["", ""];

async function backendWithout(guards: readonly (typeof GUARDS)[number][]): Promise<ProcessBackend> {
  const key = guards.join();
  const backend = backends.get(key) ?? (await ProcessBackend.start({ without: new Set(guards) }));
  backends.set(key, backend);
  return backend;
}

/** What it said. Its standard error tells why an attack did not get through. */
async function outcome(attack: Attack, backend: ProcessBackend, level?: SandboxLevel): Promise<string> {
  const { stdout, stderr } = await resultOf(attack, backend, level);
  return stdout + stderr;
}

async function resultOf(attack: Attack, backend: ProcessBackend, level?: SandboxLevel): Promise<ExecResult> {
  const victim = await host.startVictim(SANDBOX_UID);
  try {
    await using sandbox = await backend.open({ limits, network: level === "C" ? "none" : attack.network, level });
    const targets: Targets = { ...host.targets, prepared, neighbour, victim: victim.pid ?? 0 };
    const program = PRELUDE + attack.script;
    const command = ["/usr/bin/python3", "-c", program, JSON.stringify(targets)];
    return await sandbox.exec(command, { stdin: "" }).result;
  } finally {
    victim.kill("SIGKILL");
  }
}

describe.runIf(canHaveSandboxes && process.arch === "x64")("attacks", () => {
  beforeAll(async () => {
    host = await openHostTargets();
    const backend = await backendWithout([]);
    prepared = join((await backend.prepare(host.targets.folder)).path, "tls.key");
    const other = await backend.open({ level: "C", files: [{ path: "secret", content: "secret" }] });
    neighbour = other.workspace;
  });

  afterAll(async () => {
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
  });

  it("are at least 40, and each guard has one that needs it", () => {
    expect(ATTACKS.length).toBeGreaterThanOrEqual(40);
    expect(new Set(ATTACKS.map(({ name }) => name)).size).toBe(ATTACKS.length);
    expect(GUARDS.filter((guard) => !ATTACKS.some(({ guards }) => guards.includes(guard)))).toEqual([]);
  });

  describe.each(ATTACKS)("a command that $name", (attack) => {
    it("is held", async () => {
      expect(await outcome(attack, await backendWithout([]))).not.toContain("ESCAPED");
    });

    it("is held without cgroups", async () => {
      expect(await outcome(attack, await backendWithout([]), "B")).not.toContain("ESCAPED");
    });

    it(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards))).toContain("ESCAPED");
    });
  });

  const notStopped = new Set(NOT_STOPPED_AT_C.map(({ name }) => name));
  const sampled = new Set(ENDED_AT_C.map(({ name }) => name));
  const heldAtC = [...ATTACKS, ...NEIGHBOURS]
    .filter(({ name }) => !notStopped.has(name) && !sampled.has(name))
    .map((attack) => ({ ...attack, guards: GUARDS_AT_C[attack.name] ?? attack.guards }));

  describe.each(heldAtC)("at level C a command that $name", (attack) => {
    it("is held", async () => {
      expect(await outcome(attack, await backendWithout([]), "C")).not.toContain("ESCAPED");
    });

    it.runIf(attack.guards.length > 0)(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards), "C")).toContain("ESCAPED");
    });
  });

  describe.each(ENDED_AT_C)("at level C a command that $name", ({ failure, ...attack }) => {
    it(`is ended by name: ${failure}`, async () => {
      const result = await resultOf(attack, await backendWithout([]), "C");
      expect(result).toMatchObject({ failure, stdout: "" });
    });

    it(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards), "C")).toContain("ESCAPED");
    });
  });

  it.each(NOT_STOPPED_AT_C)("level C does not stop a command that $name, as docs/sandboxes.md says", async (attack) => {
    expect(await outcome(attack, await backendWithout([]), "C")).toContain("ESCAPED");
    expect(DOCS).toContain(`- ${attack.name}`);
  });
});
