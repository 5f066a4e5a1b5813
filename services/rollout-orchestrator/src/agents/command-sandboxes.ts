// SPDX-License-Identifier: Apache-2.0
import { realpath } from "node:fs/promises";
import { sep } from "node:path";
import type { Duplex } from "node:stream";
import { type HostIsolation, SANDBOX_VARIABLES, ModuleSandboxes, REACHED } from "@whetstone/modules";
import { forwardPorts, LimitError, type PolicyFailure, type Sandbox, SandboxError } from "@whetstone/sandbox";
import { EpisodeError, type RunSandboxed, type SandboxedCommand } from "@whetstone/sdk";

export interface CommandSandboxesOptions {
  /** A new connection to the gateway at which a program's base URL is. */
  readonly connectGateway: (baseUrl: string) => Duplex;
  /** What jobs may let their programs read: these folders and all below them. */
  readonly programFolders: readonly string[];
  /** Of one program and its files, MiB. */
  readonly memoryMiB: number;
}

const FOLDER = "/workspace";
const LIMITS = { processes: 256, diskMiB: 512 };
const STDOUT_CHARACTERS = 65_536;
const STDERR_CHARACTERS = 4_096;
const MORE_MS = 10_000;
const IN_FOLDER = 'cd "$1" && shift && exec "$@"';

/** Runs each try of a `command` agent in a sandbox of its own, from which it reaches the gateway and what its job names. */
export class CommandSandboxes implements AsyncDisposable {
  readonly #options: CommandSandboxesOptions;
  readonly #sandboxes: ModuleSandboxes;
  /** By what is reached, and by the replica of the gateway. */
  readonly #isolations = new Map<string, HostIsolation>();

  constructor(options: CommandSandboxesOptions) {
    this.#options = options;
    this.#sandboxes = new ModuleSandboxes();
  }

  /** @throws EpisodeError INFRASTRUCTURE where no sandbox can be had, TASK for folders that may not be read; the signal's reason */
  readonly run: RunSandboxed = async (command, signal) => {
    try {
      return await this.#run(command, signal);
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      const told = `${error.message}; agent.args.sandbox.backend: none would run it as the service's user`;
      throw new EpisodeError("INFRASTRUCTURE", told, { code: error.code, cause: error });
    }
  };

  async [Symbol.asyncDispose](): Promise<void> {
    for (const isolation of this.#isolations.values()) await isolation.close();
    await this.#sandboxes[Symbol.asyncDispose]();
  }

  async #run(command: SandboxedCommand, signal: AbortSignal): ReturnType<RunSandboxed> {
    const { sandbox: wanted, files, deadline, baseUrl } = command;
    const isolation = await this.#isolationOf(wanted.network, new URL(baseUrl).origin).get();
    if (isolation === "none") throw new SandboxError("UNAVAILABLE", "no sandbox can be had here");
    const ttlMs = Math.max(1_000, deadline - Date.now() + MORE_MS);
    await using sandbox = await isolation.backend.openWalled({
      files: Object.entries(files).map(([path, content]) => ({ path, content })),
      limits: { ...LIMITS, memoryMiB: this.#options.memoryMiB },
      network: "loopback",
      readable: await this.#readable(command),
      sockets: isolation.sockets,
      ttlMs,
      signal,
    });
    const { gateway, ...others } = REACHED;
    await forwardPorts(sandbox, { gateway, ...(wanted.network.length > 0 ? others : {}) }, ttlMs);
    const { pathname } = new URL(baseUrl);
    const env = command.env(FOLDER, `http://127.0.0.1:${gateway}${pathname}`);
    const argv =
      command.cwd === undefined ? command.command : ["sh", "-c", IN_FOLDER, "sh", command.cwd, ...command.command];
    const options = { env: { ...SANDBOX_VARIABLES, ...env }, stdin: "", deadlineMs: ttlMs, signal };
    const { exitCode, failure, stdout, stderr } = await sandbox.exec(argv, options).result;
    if (failure !== undefined) throw limitReached(failure);
    const [found] = exitCode === 0 ? await resultOf(command, sandbox) : [];
    const end = { exitCode, stdout: stdout.slice(-STDOUT_CHARACTERS), stderr: stderr.slice(-STDERR_CHARACTERS) };
    return { end, result: found === undefined ? undefined : Buffer.from(found.content).toString("utf8") };
  }

  #isolationOf(network: readonly string[], gateway: string): HostIsolation {
    const key = JSON.stringify([network, gateway]);
    const reach = { gateway: () => this.#options.connectGateway(gateway) };
    const known = this.#isolations.get(key) ?? this.#sandboxes.isolationOf({ none: false, network }, reach);
    this.#isolations.set(key, known);
    return known;
  }

  /** Links are followed before anything is compared. @throws EpisodeError TASK */
  async #readable({ sandbox, cwd }: SandboxedCommand): Promise<string[]> {
    const { programFolders } = this.#options;
    const wanted = [...sandbox.readable, ...(cwd === undefined ? [] : [cwd])];
    for (const path of wanted) {
      const real = await realpath(path).catch(() => undefined);
      const isAllowed = real !== undefined && programFolders.some((folder) => isBelow(real, folder));
      if (!isAllowed || real !== path) throw new EpisodeError("TASK", notReadable(path, programFolders));
    }
    return wanted;
  }
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function notReadable(path: string, allowed: readonly string[]): string {
  const told = allowed.length === 0 ? "allows none" : `allows ${allowed.join(", ")}`;
  return `agent.args.sandbox.readable: ${path} is no folder that a program may read: the service ${told} (WHETSTONE_PROGRAM_FOLDERS)`;
}

async function resultOf({ resultFile, maxResultBytes }: SandboxedCommand, sandbox: Sandbox) {
  try {
    return await sandbox.download([resultFile], { maxBytes: maxResultBytes });
  } catch (error) {
    if (!(error instanceof LimitError)) throw error;
    throw new EpisodeError("TASK", `the agent's result file is larger than ${maxResultBytes} bytes`, { cause: error });
  }
}

function limitReached(failure: PolicyFailure): EpisodeError {
  return new EpisodeError("INFRASTRUCTURE", `the agent's program ran into a limit of its sandbox: ${failure}`);
}
