// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex, Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { dieWithUs } from "@whetstone/core";
import { CHANNEL_FD, type ProcessBackend, PROXY_VARIABLES, type SandboxLevel } from "@whetstone/sandbox";
import type { ChildLimits } from "./limits.ts";
import { foldersOfProgram } from "./program-folders.ts";

/** What keeps a module's process from the machine. */
export type Isolation = SandboxedIn | "none";

export interface SandboxedIn {
  readonly backend: ProcessBackend;
  /** Folder with the sockets that it may connect to. Absent: none. */
  readonly sockets?: string | undefined;
}

export interface Launch {
  readonly entry: URL;
  readonly limits: ChildLimits;
  readonly isolation: Isolation;
}

/** A process that runs user code. */
export interface Launched {
  /** What we started: the code's process, or what keeps it. */
  readonly process: ChildProcess;
  readonly channel: Duplex;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly level: SandboxLevel | "none";
  /** The code's program itself was started: what went wrong before is not its own. */
  readonly hasBegun: () => boolean;
  readonly hasRunOutOfMemory: () => boolean;
  readonly kill: () => void;
  /** After its end: nothing is left of it. */
  readonly close: () => Promise<void>;
}

/** A week; a job's process that is older ends, and its episodes are played again. */
const TTL_MS = 7 * 86_400_000;
/** Node has about fifteen threads; the rest is for programs that the code starts. */
const PROCESSES = 256;
/** Files lie in memory, and count: what it may take is for the code alone. */
const DISK_MIB = 256;
/** The kernel ends what outgrows this at once; what the code itself may have is looked at from outside, which can say so. */
const beyond = (memoryMiB: number): number => Math.round(memoryMiB * 1.25) + DISK_MIB;

/** @throws SandboxError */
export async function launch(options: Launch): Promise<Launched> {
  return options.isolation === "none" ? launchHere(options) : launchInSandbox(options, options.isolation);
}

async function launchInSandbox({ entry, limits }: Launch, { backend, sockets }: SandboxedIn): Promise<Launched> {
  const file = fileURLToPath(entry);
  const sandbox = await backend.openWalled({
    limits: { memoryMiB: beyond(limits.memoryMiB), processes: PROCESSES, diskMiB: DISK_MIB, cpus: 1024 },
    network: "loopback",
    ttlMs: TTL_MS,
    readable: foldersOfProgram(file),
    sockets,
  });
  try {
    const program = sandbox.launch(command(file, limits), { env: { ...OWN_VARIABLES, ...SANDBOX_VARIABLES } });
    const { process, channel, stdout, stderr } = program;
    const hasRunOutOfMemory = (): boolean => sandbox.hasRunOutOfMemory;
    return {
      ...{ process, channel, stdout, stderr, level: sandbox.level, hasRunOutOfMemory },
      hasBegun: () => program.hasBegun,
      kill: () => program.kill(),
      close: () => sandbox.close(),
    };
  } catch (error) {
    await sandbox.close();
    throw error;
  }
}

function launchHere({ entry, limits }: Launch): Launched {
  // It ends with us: by the channel's end, and where it is in an endless loop by the kernel.
  const [file, ...args] = dieWithUs("KILL", ...command(fileURLToPath(entry), limits));
  const child = spawn(file, args, {
    env: { ...passedOn(), ...OWN_VARIABLES },
    stdio: ["ignore", "pipe", "pipe", "ignore", "ignore", "pipe"],
  });
  return {
    process: child,
    channel: (child.stdio as unknown[])[CHANNEL_FD] as Duplex,
    stdout: child.stdout as Readable,
    stderr: child.stderr as Readable,
    level: "none",
    hasBegun: () => true,
    hasRunOutOfMemory: () => false,
    kill: () => child.kill("SIGKILL"),
    close: async () => undefined,
  };
}

function command(file: string, { memoryMiB }: ChildLimits): [string, ...string[]] {
  const heap = `--max-old-space-size=${Math.round(memoryMiB * 0.75)}`;
  return [process.execPath, heap, "--disable-warning=ExperimentalWarning", file];
}

/** The SDK must know that it is only being played here. */
const OWN_VARIABLES = { WHETSTONE_MODULE_HOST: "1" };
/** Node's fetch takes the proxy's name from these; where there is no proxy, nothing is reached. */
export const SANDBOX_VARIABLES = { WHETSTONE_SANDBOX: "1", ...PROXY_VARIABLES };
const PASSED_ON = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "SYSTEMROOT"];

/** Nothing of our environment but a few harmless names. */
function passedOn(): NodeJS.ProcessEnv {
  const passed = PASSED_ON.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []));
  return Object.fromEntries(passed) as NodeJS.ProcessEnv;
}
