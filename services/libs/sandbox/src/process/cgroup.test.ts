// SPDX-License-Identifier: Apache-2.0
// What is written where. That the kernel obeys is shown by the escape suite, with the version that this machine has.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSettings } from "../open-settings.ts";
import { Cgroup, findHierarchies } from "./cgroup.ts";

const { limits } = openSettings({ limits: { memoryMiB: 64, cpus: 0.5, processes: 20 } });

describe("cgroups", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "whetstone-cgroup-"));
  });
  afterEach(() => {
    rmSync(root, { recursive: true });
  });

  const filesOf = (folder: string): Record<string, string> =>
    Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));

  it("of version 1 are one for each controller, below our own", () => {
    for (const path of ["memory/a/b", "pids", "cpu"]) mkdirSync(join(root, path), { recursive: true });
    const own = "9:memory:/a/b\n8:pids:/\n5:cpu,cpuacct:/\n0::/\n";
    const hierarchies = findHierarchies(root, own);
    expect(hierarchies).toEqual({
      version: 1,
      parents: ["memory/a/b", "pids/", "cpu/"].map((path) => join(root, path)),
    });
    const cgroup = new Cgroup(hierarchies, "x", limits, new Set());
    expect(filesOf(join(root, "memory/a/b/x"))).toEqual({ "memory.limit_in_bytes": String(64 * 1024 * 1024) });
    expect(filesOf(join(root, "pids/x"))).toEqual({ "pids.max": "36" });
    expect(filesOf(join(root, "cpu/x"))).toEqual({ "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000" });
    writeFileSync(join(root, "memory/a/b/x/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    writeFileSync(join(root, "pids/x/pids.events"), "max 7\n");
    expect([cgroup.memoryKills, cgroup.refusedProcesses]).toEqual([3, 7]);
  });

  it("of version 2 are one, and our own process makes room for it", () => {
    const own = join(root, "pod");
    mkdirSync(own);
    writeFileSync(join(root, "cgroup.controllers"), "cpu memory pids\n");
    writeFileSync(join(own, "cgroup.subtree_control"), "memory\n");
    const hierarchies = findHierarchies(root, "0::/pod\n");
    expect(hierarchies).toEqual({ version: 2, parents: [own] });
    expect(filesOf(join(own, "whetstone-owner"))).toEqual({ "cgroup.procs": String(process.pid) });
    expect(readFileSync(join(own, "cgroup.subtree_control"), "utf8")).toBe("+pids +cpu");
    const cgroup = new Cgroup(hierarchies, "x", limits, new Set());
    const memory = { "memory.max": String(64 * 1024 * 1024) };
    expect(filesOf(join(own, "x"))).toEqual({ ...memory, "pids.max": "36", "cpu.max": "50000 100000" });
    expect(cgroup.procs).toEqual([join(own, "x/cgroup.procs")]);
    writeFileSync(join(own, "x/memory.events"), "max 0\noom 1\noom_kill 1\n");
    writeFileSync(join(own, "x/pids.events"), "max 2\n");
    expect([cgroup.memoryKills, cgroup.refusedProcesses]).toEqual([1, 2]);
  });

  it("that cannot be made leave nothing, and say why", () => {
    for (const path of ["memory", "pids"]) mkdirSync(join(root, path));
    const own = "9:memory:/\n8:pids:/\n";
    expect(() => findHierarchies(root, own)).toThrow(/no cgroup hierarchy of cpu/);
    // In a container without a cgroup namespace, the path is the host's.
    expect(() => findHierarchies(root, `${own}5:cpu:/kubepods/x\n`)).toThrow(/kubepods.x, .* is not there/);
    mkdirSync(join(root, "cpu"));
    const hierarchies = findHierarchies(root, `${own}5:cpu:/\n`);
    rmSync(join(root, "cpu"), { recursive: true });
    expect(() => new Cgroup(hierarchies, "x", limits, new Set(["memory", "processes"]))).toThrow(/ENOENT/);
    expect([readdirSync(join(root, "memory")), readdirSync(join(root, "pids"))]).toEqual([[], []]);
  });
});
