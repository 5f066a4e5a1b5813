// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sleep } from "@whetstone/core";
import type { SandboxLimits } from "../sandbox.ts";
import { KEEPING_PROCESSES } from "./arguments.ts";
import type { Without } from "./guards.ts";

// Version 1 has a hierarchy for each controller, version 2 one for all. A sandbox's group lies below our own in each of them.

export const CGROUP_ROOT = "/sys/fs/cgroup";
const REMOVE_TRIES = 100;
const REMOVE_EVERY_MS = 10;
/** Of CPU time, µs. */
const PERIOD = 100_000;

type Files = Readonly<Record<string, string>>;

export interface Hierarchies {
  readonly version: 1 | 2;
  /** Folders below which groups can be made: one, or one for each of memory, pids and cpu. */
  readonly parents: readonly string[];
}

/** Where groups of ours can be made. @throws Error that says why nowhere. */
export function findHierarchies(root = CGROUP_ROOT, own = readFileSync("/proc/self/cgroup", "utf8")): Hierarchies {
  const paths = new Map(
    own
      .trim()
      .split("\n")
      .map((line) => parseOwn(line)),
  );
  const unified = paths.get("");
  const controllers = join(root, "cgroup.controllers");
  if (unified !== undefined && existsSync(controllers) && readFileSync(controllers, "utf8").includes("memory")) {
    return { version: 2, parents: [delegate(join(root, unified))] };
  }
  const parents = ["memory", "pids", "cpu"].map((controller) => {
    const path = paths.get(controller);
    if (path === undefined) throw new Error(`no cgroup hierarchy of ${controller} in /proc/self/cgroup`);
    const folder = join(root, controller, path);
    // A container may be told the path that its host knows.
    if (!existsSync(folder)) throw new Error(`${folder}, the cgroup of this process, is not there`);
    return folder;
  });
  return { version: 1, parents };
}

/** "4:cpu,cpuacct:/a" → its controllers' path; version 2 has no controller's name. */
function parseOwn(line: string): [string, string] {
  const [, controllers = "", ...path] = line.split(":");
  const known = controllers.split(",").find((name) => ["memory", "pids", "cpu"].includes(name));
  return [known ?? controllers, path.join(":")];
}

/** In version 2 a group that has processes cannot pass controllers on: ours moves into a group below, beside the sandboxes'. */
function delegate(own: string): string {
  const needed = ["memory", "pids", "cpu"];
  const control = join(own, "cgroup.subtree_control");
  const missing = () => needed.filter((name) => !readFileSync(control, "utf8").split(/\s+/u).includes(name));
  if (missing().length === 0) return own;
  const leaf = join(own, "whetstone-owner");
  mkdirSync(leaf, { recursive: true });
  writeFileSync(join(leaf, "cgroup.procs"), String(process.pid));
  writeFileSync(
    control,
    missing()
      .map((name) => `+${name}`)
      .join(" "),
  );
  return own;
}

/** The limits of one sandbox, and what it ran into. */
export class Cgroup {
  readonly #folders: string[] = [];
  readonly #version: 1 | 2;

  /** @throws Error where the groups cannot be made; nothing is left then. */
  constructor({ version, parents }: Hierarchies, name: string, limits: SandboxLimits, without: Without) {
    this.#version = version;
    try {
      for (const [i, files] of settings(version, limits, without).entries())
        this.#make(join(parents[i] ?? "", name), files);
    } catch (error) {
      for (const folder of this.#folders) rmdirSync(folder);
      throw error;
    }
  }

  get procs(): readonly string[] {
    return this.#folders.map((folder) => join(folder, "cgroup.procs"));
  }

  /** Processes that were killed because the memory was used up. */
  get memoryKills(): number {
    return this.#counter(this.#version === 2 ? "memory.events" : "memory.oom_control", /^oom_kill (\d+)/mu, 0);
  }

  /** Processes that were refused because there are as many as there may be. */
  get refusedProcesses(): number {
    return this.#counter("pids.events", /^max (\d+)/mu, this.#version === 2 ? 0 : 1);
  }

  /** MiB in use. */
  get memoryMiB(): number {
    const bytes = this.#counter(this.#version === 2 ? "memory.current" : "memory.usage_in_bytes", /^(\d+)/u, 0);
    return bytes / 1024 / 1024;
  }

  /** The kernel needs some milliseconds to forget processes that have ended. */
  async remove(): Promise<void> {
    for (let i = 0; this.#folders.length > 0; i += 1) {
      const folder = this.#folders.at(-1) as string;
      try {
        rmdirSync(folder);
        this.#folders.pop();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") this.#folders.pop();
        else if (i >= REMOVE_TRIES) throw error;
        else await sleep(REMOVE_EVERY_MS);
      }
    }
  }

  #make(folder: string, files: Files): void {
    mkdirSync(folder);
    this.#folders.push(folder);
    for (const [name, value] of Object.entries(files)) {
      const path = join(folder, name);
      // Swap is not counted by every kernel.
      if (existsSync(path) || !/swap|memsw/u.test(name)) writeFileSync(path, value);
    }
  }

  #counter(file: string, pattern: RegExp, folder: number): number {
    return Number(pattern.exec(readFileSync(join(this.#folders[folder] ?? "", file), "utf8"))?.[1] ?? 0);
  }
}

/** One entry a hierarchy, in the order of its parents. */
function settings(version: 1 | 2, limits: SandboxLimits, without: Without): Files[] {
  const bytes = String(limits.memoryMiB * 1024 * 1024);
  const quota = Math.round(limits.cpus * PERIOD);
  const pids: Files = without.has("processes") ? {} : { "pids.max": String(limits.processes + KEEPING_PROCESSES) };
  const hasMemory = !without.has("memory");
  if (version === 2) {
    const memory: Files = hasMemory ? { "memory.max": bytes, "memory.swap.max": "0" } : {};
    return [{ ...memory, ...pids, "cpu.max": `${quota} ${PERIOD}` }];
  }
  const memory: Files = hasMemory ? { "memory.limit_in_bytes": bytes, "memory.memsw.limit_in_bytes": bytes } : {};
  return [memory, pids, { "cpu.cfs_period_us": String(PERIOD), "cpu.cfs_quota_us": String(quota) }];
}
