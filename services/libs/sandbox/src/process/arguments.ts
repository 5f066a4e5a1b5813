// SPDX-License-Identifier: Apache-2.0
import { lstatSync, readdirSync } from "node:fs";
import { release } from "node:os";
import type { SandboxLevel, SandboxLimits } from "../sandbox.ts";
import type { Without } from "./guards.ts";
import { bindSources, type ReadablePath } from "./readable.ts";

// The command lines that make a sandbox. Its keeper holds all namespaces and the writable files, which lie on a tmpfs that only
// the keeper's mount namespace has: nothing of it is on a disk, and all of it is gone when the keeper is. Each command is a
// bubblewrap of its own, entered into the keeper's namespaces, with one more user, mount and process namespace inside.

/** Who runs a sandbox where we are root, since a root without a namespace of its own still owns files like those of /proc/sys. */
export const SANDBOX_UID = 65533;
/** Who it is inside. */
const INNER_UID = 1000;
/** The descriptor on which a command says that it has begun: until then, what goes wrong is ours. */
export const STARTED_FD = 4;
export const SECCOMP_FD = 3;
/** The socket between a program that stays and its caller. */
export const CHANNEL_FD = 5;
export const WORKSPACE = "/workspace";
/** Where the sockets are that a sandbox may connect to. */
export const SOCKETS = "/run/sockets";

export interface KeeperArguments {
  /** Stands on the command line, so that a later owner knows whose it is. */
  readonly id: string;
  /** A folder of the host that the tmpfs is mounted over, in the keeper's mount namespace only. */
  readonly mountPoint: string;
  /** How many, beside the workspace. */
  readonly folders: number;
  /** Of a prepared state. */
  readonly lower: string | undefined;
  readonly readable: readonly ReadablePath[];
  /** A folder of the host where what only root may enter is bound to, in the keeper's mount namespace only. */
  readonly stage: string;
  readonly limits: SandboxLimits;
  readonly ttlMs: number;
  readonly ownProc: boolean;
  readonly without: Without;
}

/** Prints "ready" and waits for a line; ends when its time is over, and when its parent is gone. */
export function keeperCommand(options: KeeperArguments): string[] {
  const { id, mountPoint, folders, lower, limits, ttlMs, ownProc, without } = options;
  const size = without.has("disk") ? "" : `size=${limits.diskMiB}m,`;
  const inodes = without.has("disk files") ? "" : `nr_inodes=${limits.diskFiles + OWN_INODES + folders},`;
  const script = [
    `mount -t tmpfs -o ${size}${inodes}mode=0755 tmpfs "$1"`,
    'cd "$1"',
    ["mkdir workspace tmp shm folders", ...numbered(folders)].join(" "),
    ...(lower === undefined ? [] : [canOverlay() ? `mkdir upper work && ${OVERLAY}` : COPY]),
    "echo ready",
    // Whoever dies before it answers is no parent yet that bubblewrap dies with.
    "read -r _",
    'exec sleep "$3"',
  ].join(" && ");
  return [
    ...bindSources(options.readable, options.stage),
    ...asUnprivileged(),
    "bwrap",
    "--unshare-user",
    ...["--uid", "0", "--gid", "0"],
    ...only(!without.has("network namespace"), "--unshare-net"),
    ...only(!without.has("ipc namespace"), "--unshare-ipc"),
    ...only(!without.has("host name"), "--unshare-uts", "--hostname", "sandbox"),
    "--die-with-parent",
    ...["--cap-add", "ALL"],
    ...["--dev-bind", "/", "/"],
    // Bubblewrap looks up its children in /proc by the ids that they have in this namespace.
    ...only(!without.has("process namespace"), "--unshare-pid"),
    ...only(!without.has("process namespace") && ownProc, "--proc", "/proc"),
    ...["--info-fd", "3"],
    ...["--", "/bin/sh", "-c", script, id, mountPoint, lower ?? "", String(ttlMs / 1000)],
  ];
}

/** The folders that the keeper makes. */
const OWN_INODES = 9;
const numbered = (folders: number): string[] => Array.from({ length: folders }, (_, index) => `folders/${index}`);
const OVERLAY = 'mount -t overlay overlay -o "lowerdir=$2,upperdir=upper,workdir=work,userxattr" workspace';
const COPY = 'cp -a "$2/." workspace';

/** An overlay notes on its upper layer which folders were made anew, in attributes that a tmpfs has since Linux 6.6. */
function canOverlay(): boolean {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return major > 6 || (major === 6 && minor >= 6);
}

export interface CommandArguments {
  readonly id: string;
  /** Process id of the keeper's first process, as the host sees it. */
  readonly keeper: number;
  readonly mountPoint: string;
  readonly level: SandboxLevel;
  readonly limits: SandboxLimits;
  /** `cgroup.procs` files to be joined before anything of the sandbox runs. */
  readonly cgroupProcs: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly readable: readonly ReadablePath[];
  /** Paths of the empty folders. */
  readonly emptyFolders: readonly string[];
  /** A folder of the host that is `SOCKETS` inside. */
  readonly sockets: string | undefined;
  /** The last descriptor that the command gets from us. */
  readonly lastFd: number;
  /** A container whose /proc is masked may mount no other: then commands see none, or the container's. */
  readonly ownProc: boolean;
  readonly needsProc: boolean;
  /** Of the sandbox's time to live. */
  readonly leftMs: number;
  readonly without: Without;
}

/** A command inside. The shell that joins the cgroups becomes nsenter, so that nothing of it runs outside the limits. */
export function innerCommand(command: readonly string[], options: CommandArguments): string[] {
  const { id, keeper, cgroupProcs, cwd, env, lastFd, ownProc, leftMs, without } = options;
  const join = cgroupProcs.map((path) => `echo $$ >'${path}' && `).join("");
  return [
    ...["/bin/bash", "--norc", "-c", `${closeAbove(lastFd)}; ${join}exec "$@"`, id],
    ...asUnprivileged(),
    ...["nsenter", "--target", String(keeper), "--user", "--preserve-credentials", "--mount"],
    ...only(!without.has("network namespace"), "--net"),
    ...only(!without.has("ipc namespace"), "--ipc"),
    ...only(!without.has("host name"), "--uts"),
    ...only(!without.has("process namespace") && ownProc, "--pid"),
    "--",
    ...only(!ownProc, ...endsByItself(leftMs)),
    ...rlimits(options),
    "bwrap",
    ...["--unshare-user", "--unshare-cgroup-try", "--uid", String(INNER_UID), "--gid", String(INNER_UID)],
    ...only(!without.has("process namespace"), "--unshare-pid"),
    "--die-with-parent",
    ...only(!without.has("session"), "--new-session"),
    ...(without.has("capabilities") ? ["--cap-add", "ALL"] : ["--cap-drop", "ALL"]),
    ...mounts(options),
    ...["--chdir", cwd === "" ? WORKSPACE : `${WORKSPACE}/${cwd}`],
    ...environment(env, without),
    ...only(!without.has("seccomp"), "--seccomp", String(SECCOMP_FD)),
    "--",
    ...["/bin/sh", "-c", `echo >&${STARTED_FD}; exec ${STARTED_FD}>&-; exec "$@"`, "sh"],
    ...command,
  ];
}

/**
 * Bubblewrap looks for its child in /proc. Without a /proc of the keeper's process namespace it has to stay outside of that one:
 * what the kernel would do there when the keeper ends, whoever keeps the command does. It ends with us, too, and when we hang.
 */
function endsByItself(leftMs: number): string[] {
  return ["setpriv", "--pdeathsig", "KILL", "timeout", "--foreground", "-s", "KILL", String((leftMs + LATE_MS) / 1000)];
}

/** The keeper is first, so that it is known why. */
const LATE_MS = 2_000;

/** Descriptors that we were given ourselves are passed on by Node. A plain sh cannot name those above 9. */
const closeAbove = (last: number): string =>
  `for fd in /proc/self/fd/*; do fd=\${fd##*/}; [ $fd -le ${last} ] || eval "exec $fd>&-"; done`;

function mounts({
  mountPoint,
  emptyFolders,
  readable,
  sockets,
  ownProc,
  needsProc,
  without,
}: CommandArguments): string[] {
  const own = [
    ...["--bind", `${mountPoint}/workspace`, WORKSPACE],
    ...["--bind", `${mountPoint}/tmp`, "/tmp"],
    ...["--bind", `${mountPoint}/shm`, "/dev/shm"],
    ...numbered(emptyFolders.length).flatMap((own, index) => [
      "--bind",
      `${mountPoint}/${own}`,
      emptyFolders[index] ?? "",
    ]),
  ];
  const shared = ["--ro-bind", "/proc", "/proc"];
  // Outside of the keeper's process namespace the kernel refuses a new /proc.
  const isolated = ownProc ? ["--proc", "/proc"] : needsProc ? shared : ["--dir", "/proc"];
  const proc = without.has("process namespace") ? shared : isolated;
  const readOnly = only(!without.has("read-only"), "--remount-ro", "/dev", "--remount-ro", "/");
  return [
    ...systemFolders(),
    ...proc,
    "--dev",
    "/dev",
    ...own,
    ...readable.flatMap(({ path, source }) => ["--ro-bind", source, path]),
    ...(sockets === undefined ? [] : ["--ro-bind", sockets, SOCKETS]),
    ...only(without.has("root folder"), ...hostFolders()),
    ...readOnly,
  ];
}

/** Programs and their libraries: /usr, and what older systems have beside it. */
function systemFolders(): string[] {
  const beside = ["bin", "sbin", "lib", "lib64"].flatMap((name) => {
    const entry = lstatSync(`/${name}`, { throwIfNoEntry: false });
    if (entry === undefined) return [];
    return entry.isSymbolicLink() ? ["--symlink", `usr/${name}`, `/${name}`] : ["--ro-bind", `/${name}`, `/${name}`];
  });
  const files = ["/etc/ld.so.cache", "/etc/alternatives"].flatMap((path) => ["--ro-bind-try", path, path]);
  return ["--ro-bind", "/usr", "/usr", ...beside, ...files];
}

/** For the escape suite. */
function hostFolders(): string[] {
  const names = readdirSync("/").filter(
    (name) => !["usr", "bin", "sbin", "lib", "lib64", "proc", "dev", "sys"].includes(name),
  );
  return names.flatMap((name) => ["--bind-try", `/${name}`, `/${name}`]);
}

/** All variables of a command. */
export function environmentOf(
  env: Readonly<Record<string, string>>,
  { workspace, temporary }: { readonly workspace: string; readonly temporary: string },
): Record<string, string> {
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: workspace,
    TMPDIR: temporary,
    LANG: "C.UTF-8",
    PYTHONDONTWRITEBYTECODE: "1",
    ...env,
  };
}

function environment(env: Readonly<Record<string, string>>, without: Without): string[] {
  const set = Object.entries(environmentOf(env, { workspace: WORKSPACE, temporary: "/tmp" })).flatMap(
    ([name, value]) => ["--setenv", name, value],
  );
  return [...only(!without.has("environment"), "--clearenv"), ...set];
}

/**
 * Set within the keeper's user namespace, where the number of processes is counted for this sandbox alone (Linux 5.14). At level A
 * it is the second line: the cgroup's limit is reached first, because it tells us so.
 */
function rlimits({ level, limits, lastFd, without }: CommandArguments): string[] {
  const { processes, openFiles, memoryMiB } = limits;
  return [
    "prlimit",
    ...only(!without.has("processes"), `--nproc=${processes + KEEPING_PROCESSES * (level === "A" ? 2 : 1)}`),
    ...only(!without.has("open files"), `--nofile=${openFiles}`),
    ...only(!without.has("core files"), "--core=0"),
    // Of a program that stays, whoever started it looks at the memory: engines of languages reserve far more than they use.
    ...only(level !== "A" && lastFd < CHANNEL_FD && !without.has("memory"), `--as=${memoryMiB * 1024 * 1024}`),
  ];
}

/** Of the keeper, and of a few commands: nsenter, bubblewrap twice. */
export const KEEPING_PROCESSES = 16;

/** What a command line begins with where we are root. */
export function asUnprivileged(): string[] {
  const uid = String(SANDBOX_UID);
  return only(process.getuid?.() === 0, "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups");
}

function only(condition: boolean, ...args: string[]): string[] {
  return condition ? args : [];
}
