// SPDX-License-Identifier: Apache-2.0
import type { ContainerCreateOptions, HostConfig } from "dockerode";
import type { SandboxLimits } from "../sandbox.ts";
import type { ContainerGuard } from "./guards.ts";

/** Neither root nor a user that hosts or images have. */
export const CONTAINER_UID = 65_533;
export const LABELS = {
  sandbox: "dev.whetstone.sandbox",
  /** Where its owner's process id says anything. */
  machine: "dev.whetstone.machine",
  /** Milliseconds since 1970. */
  expires: "dev.whetstone.expires",
} as const;

const MIB = 1024 * 1024;
const DAEMON = "/whetstone/bin/sandboxd";
/** Of the daemon and of what keeps its commands, beside what commands may have. */
const DAEMON_MIB = 32;
const DAEMON_THREADS = 64;
export const DAEMON_FILES = 1024;

export interface ContainerOptions {
  readonly name: string;
  /** Its id, so that a tag which moves meanwhile changes nothing. */
  readonly image: string;
  /** The daemon's program, on the engine's machine. */
  readonly daemonPath: string;
  readonly machine: string;
  readonly limits: SandboxLimits;
  readonly ttlMs: number;
  /** Of the image, which may be written here. */
  readonly imageFolders: readonly string[];
  readonly emptyFolders: readonly string[];
  /** Of the engine's machine: more cannot be asked for. */
  readonly cores: number;
  /** Of the engine: without it there is no swap that could be bounded. */
  readonly boundsSwap: boolean;
  /** For the escape suite. */
  readonly without: ReadonlySet<ContainerGuard>;
  /** For the escape suite: what is seen without the guard "root folder". */
  readonly hostFolder?: string | undefined;
}

/** A container that holds one sandbox. It ends with the pipe to its first process, and is removed when it has ended. */
export function containerSettings(options: ContainerOptions): ContainerCreateOptions {
  const { name, image, machine, ttlMs, without } = options;
  const user = without.has("user") ? 0 : CONTAINER_UID;
  return {
    name,
    Image: image,
    ...(!without.has("host name") && { Hostname: "sandbox" }),
    User: `${user}:${user}`,
    WorkingDir: "/",
    Entrypoint: [DAEMON, "serve-pipe", String(ttlMs)],
    Cmd: [],
    // An image's own check would be a command that nobody asked for.
    Healthcheck: { Test: ["NONE"] },
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: true,
    // Who holds the pipe owns the sandbox: when it is closed, by a kill too, the daemon reads its end.
    StdinOnce: true,
    Labels: {
      [LABELS.sandbox]: "1",
      [LABELS.machine]: machine,
      [LABELS.expires]: String(Date.now() + ttlMs),
    },
    HostConfig: { ...isolation(options), ...resources(options) },
  };
}

function isolation({ daemonPath, without, hostFolder }: ContainerOptions): HostConfig {
  const programs = { Type: "bind", Source: daemonPath, Target: DAEMON, ReadOnly: true } as const;
  const host = { Type: "bind", Source: hostFolder ?? "/", Target: hostFolder ?? "/host" } as const;
  return {
    AutoRemove: true,
    LogConfig: { Type: "none", Config: {} },
    Privileged: false,
    Mounts: without.has("root folder") ? [programs, host] : [programs],
    ReadonlyRootfs: !without.has("read-only"),
    NetworkMode: without.has("network namespace") ? "host" : "none",
    PidMode: without.has("process namespace") ? "host" : "",
    IpcMode: without.has("ipc namespace") ? "host" : "private",
    UTSMode: without.has("host name") ? "host" : "",
    CapDrop: ["ALL"],
    CapAdd: without.has("capabilities") ? ["SYS_ADMIN", "SYS_CHROOT"] : [],
    SecurityOpt: [
      ...(without.has("user") ? [] : ["no-new-privileges:true"]),
      ...(without.has("seccomp") ? ["seccomp=unconfined"] : []),
    ],
  };
}

function resources({ limits, imageFolders, emptyFolders, without, cores, boundsSwap }: ContainerOptions): HostConfig {
  const { memoryMiB, cpus, processes, openFiles, diskMiB } = limits;
  const memory = (memoryMiB + DAEMON_MIB) * MIB;
  const most = Math.max(openFiles, DAEMON_FILES);
  const disk = without.has("disk") ? 1024 * 1024 * MIB : diskMiB * MIB;
  const folder = folderOptions(limits, without);
  return {
    ...(!without.has("memory") && { Memory: memory, ...(boundsSwap && { MemorySwap: memory }) }),
    NanoCpus: Math.round(Math.min(cpus, cores) * 1e9),
    ...(!without.has("processes") && { PidsLimit: processes + DAEMON_THREADS }),
    Ulimits: [
      { Name: "nofile", Soft: most, Hard: most },
      { Name: "core", Soft: 0, Hard: 0 },
    ],
    ShmSize: disk,
    Tmpfs: Object.fromEntries(["/workspace", "/tmp", ...imageFolders, ...emptyFolders].map((path) => [path, folder])),
  };
}

/** What is written lies in memory, so that its size can be bounded whatever disk the engine has. */
function folderOptions({ diskMiB, diskFiles }: SandboxLimits, without: ContainerOptions["without"]): string {
  const owner = without.has("user") ? "" : `,uid=${CONTAINER_UID},gid=${CONTAINER_UID}`;
  const size = without.has("disk") ? "" : `,size=${diskMiB}m`;
  const files = without.has("disk files") ? "" : `,nr_inodes=${diskFiles}`;
  return `rw,exec,nosuid,nodev,mode=0700${owner}${size}${files}`;
}
