// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { openSettings } from "../open-settings.ts";
import { type ContainerOptions, containerSettings } from "./container-settings.ts";
import { diedOfMemory } from "./engine.ts";
import { isLeft } from "./reaper.ts";

const base: ContainerOptions = {
  name: "whetstone-sandbox-1-2-3",
  image: "sha256:1",
  daemonPath: "/opt/sandboxd",
  machine: "here",
  limits: openSettings({ limits: { memoryMiB: 100, cpus: 8, processes: 20, diskMiB: 30, diskFiles: 40 } }).limits,
  ttlMs: 5000,
  imageFolders: [],
  emptyFolders: [],
  cores: 2,
  boundsSwap: true,
  without: new Set(),
};

describe("a container's settings", () => {
  it("give it no right, no network, no folder of the host but the daemon's program", () => {
    const { User, HostConfig, StdinOnce } = containerSettings(base);
    expect({ User, StdinOnce }).toEqual({ User: "65533:65533", StdinOnce: true });
    expect(HostConfig).toMatchObject({
      AutoRemove: true,
      Privileged: false,
      ReadonlyRootfs: true,
      NetworkMode: "none",
      IpcMode: "private",
      CapDrop: ["ALL"],
      CapAdd: [],
      SecurityOpt: ["no-new-privileges:true"],
      Mounts: [{ Type: "bind", Source: "/opt/sandboxd", Target: "/whetstone/bin/sandboxd", ReadOnly: true }],
    });
    expect(HostConfig).not.toHaveProperty("Binds");
  });

  it("bound what it takes", () => {
    const MIB = 1024 * 1024;
    const { HostConfig, Entrypoint } = containerSettings(base);
    expect(Entrypoint).toEqual(["/whetstone/bin/sandboxd", "serve-pipe", "5000"]);
    expect(HostConfig).toMatchObject({
      Memory: 132 * MIB,
      MemorySwap: 132 * MIB,
      NanoCpus: 2e9,
      PidsLimit: 84,
      ShmSize: 30 * MIB,
      Tmpfs: { "/tmp": "rw,exec,nosuid,nodev,mode=0700,uid=65533,gid=65533,size=30m,nr_inodes=40" },
    });
    expect(containerSettings({ ...base, boundsSwap: false }).HostConfig).not.toHaveProperty("MemorySwap");
  });
});

describe("a container is left", () => {
  const now = 1_000_000;
  it.each([
    { what: "its time is over", name: "whatever", machine: "there", expiresAt: now - 60_000, expected: true },
    { what: "its time is not over", name: "whatever", machine: "there", expiresAt: now, expected: false },
    { what: "its owner is gone", name: "whetstone-sandbox-1-7-1", machine: "here", expiresAt: now, expected: true },
    {
      what: "another machine has its owner",
      name: "whetstone-sandbox-1-7-1",
      machine: "there",
      expiresAt: now,
      expected: false,
    },
  ])("or not: $what", ({ name, machine, expiresAt, expected }) => {
    expect(isLeft({ name, machine, expiresAt }, "here", now)).toBe(expected);
  });
});

describe("a container that has ended ran out of memory", () => {
  const at = (Action: string, ms: number) => ({ Action, timeNano: ms * 1e6 });
  it.each([
    { events: [at("oom", 0), at("die", 500)], expected: true },
    { events: [at("oom", 0), at("oom", 9000), at("die", 9500)], expected: true },
    { events: [at("oom", 0), at("die", 9000)], expected: false },
    { events: [at("oom", 0), at("kill", 400), at("die", 500)], expected: false },
    { events: [at("die", 500)], expected: false },
    { events: [at("oom", 500)], expected: false },
    { events: [], expected: false },
  ])("or not: $events", ({ events, expected }) => {
    expect(diedOfMemory(events)).toBe(expected);
  });
});
