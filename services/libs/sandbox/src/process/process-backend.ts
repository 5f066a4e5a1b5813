// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Gate, WhetstoneError } from "@whetstone/core";
import { egressProxy } from "../egress/proxy.ts";
import { PROXY_PORT, PROXY_VARIABLES } from "../egress/reached.ts";
import { serveSockets } from "../egress/sockets.ts";
import { SandboxError } from "../failure.ts";
import { openSettings } from "../open-settings.ts";
import { ownedName } from "../owned-name.ts";
import {
  LEVELS,
  type OpenOptions,
  type PreparedState,
  type Sandbox,
  type SandboxBackend,
  type SandboxLevel,
} from "../sandbox.ts";
import { SANDBOX_UID } from "./arguments.ts";
import { Cgroup, findHierarchies, type Hierarchies } from "./cgroup.ts";
import { forwardPorts } from "./forward.ts";
import type { Without } from "./guards.ts";
import { Keeper } from "./keeper.ts";
import { makeLiteFolder } from "./lite-folder.ts";
import { LiteSandbox } from "./lite-sandbox.ts";
import { reap } from "./owner.ts";
import { ProcessSandbox, type ProcessSandboxOptions } from "./process-sandbox.ts";
import { readablePaths } from "./readable.ts";
import { isFilterable, seccompFilter } from "./seccomp.ts";

export interface ProcessBackendOptions {
  /** For mount points and prepared states; nothing that a sandbox writes. Default: a folder of ours in the system's for temporary files. */
  readonly folder?: string | undefined;
  /** Sandboxes at once; one more is refused. Default 1,000. */
  readonly maxSandboxes?: number | undefined;
  /** For the escape suite: takes guards away. */
  readonly without?: Without | undefined;
}

export interface ProcessOpenOptions extends OpenOptions {
  /** Files and folders of this machine that can be read inside, at the same place. All may read them, or whoever runs sandboxes where that is not root. */
  readonly readable?: readonly string[] | undefined;
  /** A folder with the sockets that can be connected to, `/run/sockets` inside. */
  readonly sockets?: string | undefined;
  /**
   * Nothing that runs inside can do without /proc. In a container whose /proc is masked no sandbox may have its own: then the
   * container's is seen, read-only: the names, command lines and figures of its processes, not their variables, memory or files.
   * Default: false.
   */
  readonly needsProc?: boolean | undefined;
}

/** What does not work here, and why. */
type Reasons = Partial<Record<SandboxLevel, string>>;

/** More at once only take CPU from each other. */
const STARTING = 16;
const PREPARE_MS = 600_000;
const run = promisify(execFile);

/** Sandboxes of this machine's kernel: bubblewrap, and cgroups where they can be written; Landlock where it is refused. */
export class ProcessBackend implements SandboxBackend {
  readonly level: SandboxLevel;
  readonly #mountPoint: string;
  /** Of what only root may enter. */
  readonly #stage: string;
  readonly #prepared: string;
  /** Of level C: its workspaces. */
  readonly #lite: string;
  readonly #maxSandboxes: number;
  readonly #without: Without;
  readonly #hierarchies: Hierarchies | undefined;
  readonly #reasons: Reasons;
  readonly #ownProc: boolean;
  readonly #starting = new Gate(STARTING);
  readonly #open = new Set<Sandbox>();
  #opening = 0;

  private constructor(options: ProcessBackendOptions, found: Found) {
    const { folder = defaultFolder(), maxSandboxes = 1000, without = new Set() } = options;
    this.#maxSandboxes = maxSandboxes;
    this.#without = without;
    this.#hierarchies = found.hierarchies;
    this.#reasons = found.reasons;
    this.#ownProc = found.ownProc;
    this.level = LEVELS.find((level) => !(level in found.reasons)) ?? "C";
    const isRoot = process.getuid?.() === 0;
    this.#mountPoint = ownFolder(join(ownFolder(folder, 0o711), "mount"), 0o711);
    this.#stage = ownFolder(join(folder, "readable"), 0o711);
    this.#prepared = ownFolder(join(folder, "prepared"), 0o700, isRoot ? SANDBOX_UID : undefined);
    this.#lite = ownFolder(join(folder, "lite"), 0o700, isRoot ? SANDBOX_UID : undefined);
    reap(found.hierarchies?.parents ?? [], [this.#prepared, this.#lite]);
  }

  /** Finds out which levels work, by opening a sandbox. @throws SandboxError UNAVAILABLE when none does. */
  static async start(options: ProcessBackendOptions = {}): Promise<ProcessBackend> {
    return await ProcessBackend.#startFrom(options, findGroups());
  }

  static async #startFrom(options: ProcessBackendOptions, found: Found): Promise<ProcessBackend> {
    for (const level of LEVELS) {
      if (level in found.reasons) continue;
      const backend = new ProcessBackend(options, found);
      try {
        await backend.#probe(level);
        return backend;
      } catch (error) {
        const { message } = WhetstoneError.from(error);
        if (found.ownProc && NO_PROC.test(message))
          return await ProcessBackend.#startFrom(options, { ...found, ownProc: false });
        found.reasons[level] = message;
      }
    }
    throw unavailable("no sandbox can be had here", found.reasons);
  }

  async open(options: OpenOptions = {}): Promise<Sandbox> {
    if (options.image !== undefined)
      throw new SandboxError("UNAVAILABLE", `the backend "process" has no images (${options.image}): give it a folder`);
    const settings = openSettings(options);
    const level = this.#levelFor(options.level);
    return await this.#counted(() => this.#start(level, settings), options.signal);
  }

  /** One with namespaces of its own, at level A or B: only there can more be seen than the system's folders. */
  async openWalled({ readable, sockets, needsProc, ...options }: ProcessOpenOptions = {}): Promise<ProcessSandbox> {
    const settings = { ...openSettings(options), readable, sockets, needsProc };
    const level = this.#levelFor(options.level ?? (this.level === "C" ? "B" : this.level));
    return await this.#counted(() => this.#startWalled(level, settings), options.signal);
  }

  /** A folder for sockets, which sandboxes may enter; it is removed when its owner is gone. */
  makeFolder(): { readonly path: string } & AsyncDisposable {
    const path = ownFolder(join(this.#prepared, ownedName()), 0o711);
    return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
  }

  async prepare(folder: string, signal?: AbortSignal): Promise<PreparedState> {
    const path = join(this.#prepared, ownedName());
    const remove = (): Promise<void> => rm(path, { recursive: true, force: true });
    const limits = { timeout: PREPARE_MS, ...(signal ? { signal } : {}) };
    try {
      await run("cp", ["-a", "--reflink=auto", "--", folder, path], limits);
      if (process.getuid?.() === 0) await run("chown", ["-R", `${SANDBOX_UID}:${SANDBOX_UID}`, path], limits);
    } catch (error) {
      await remove();
      throw new SandboxError("START", `${folder} could not be prepared: ${WhetstoneError.from(error).message}`, {
        cause: error,
      });
    }
    return { path, [Symbol.asyncDispose]: remove };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#open].map((sandbox) => sandbox.close()));
  }

  /** Not within the loop: bundled for older engines, `using` in a loop throws what the turn before it threw. */
  async #probe(level: SandboxLevel): Promise<void> {
    await using sandbox = await this.open({ level });
    await sandbox.exec(["true"]).result;
  }

  #levelFor(wanted: SandboxLevel | undefined): SandboxLevel {
    if (wanted === undefined) return this.level;
    if (wanted in this.#reasons)
      throw unavailable(`a sandbox of level ${wanted} cannot be had here`, this.#reasons, wanted);
    return wanted;
  }

  async #counted<S extends Sandbox>(start: () => Promise<S>, signal: AbortSignal | undefined): Promise<S> {
    if (this.#open.size + this.#opening >= this.#maxSandboxes) {
      throw new WhetstoneError("RESOURCE_EXHAUSTED", `${this.#maxSandboxes} sandboxes are open, which is the limit`);
    }
    this.#opening += 1;
    try {
      const sandbox = await this.#starting.run(start, signal);
      this.#open.add(sandbox);
      return sandbox;
    } finally {
      this.#opening -= 1;
    }
  }

  async #start(level: SandboxLevel, settings: Settings): Promise<Sandbox> {
    if (level === "C") return await this.#startLite(settings);
    return await (settings.reach.length > 0
      ? this.#startReaching(level, settings)
      : this.#startWalled(level, settings));
  }

  /** A proxy of its own, which the sandbox finds at a port of its loopback. */
  async #startReaching(level: SandboxLevel, settings: Settings): Promise<ProcessSandbox> {
    const { reach, ttlMs } = settings;
    const proxy = egressProxy({ allowed: reach, setting: "sandbox.network" });
    await using undo = new AsyncDisposableStack();
    const sockets = undo.use(await serveSockets(this.makeFolder(), { proxy }));
    const own = { sockets: sockets.path, env: PROXY_VARIABLES, endsWithIt: sockets };
    const sandbox = undo.use(await this.#startWalled(level, { ...settings, ...own, network: "loopback" }));
    await forwardPorts(sandbox, { proxy: PROXY_PORT }, ttlMs);
    undo.move();
    return sandbox;
  }

  async #startWalled(level: SandboxLevel, settings: Settings): Promise<ProcessSandbox> {
    const { limits, network, prepared, ttlMs, files, emptyFolders, signal, sockets, env, endsWithIt } = settings;
    const without = this.#without;
    const mountPoint = this.#mountPoint;
    const stage = this.#stage;
    const readable = readablePaths(settings.readable ?? [], stage);
    await using undo = new AsyncDisposableStack();
    const id = ownedName();
    const cgroup = level === "A" && this.#hierarchies ? new Cgroup(this.#hierarchies, id, limits, without) : undefined;
    undo.defer(() => cgroup?.remove());
    const lower = prepared?.path;
    const folders = emptyFolders.length;
    const keeper = await Keeper.start(
      { id, mountPoint, folders, stage, readable, lower, limits, ttlMs, ownProc: this.#ownProc, without },
      signal,
    );
    undo.defer(() => keeper.close());
    const filter = seccompFilter(process.arch as "x64", { network });
    const onClose = (): unknown => this.#open.delete(sandbox);
    const proc = { ownProc: this.#ownProc, needsProc: settings.needsProc ?? false };
    const given = { emptyFolders, readable, sockets, env, endsWithIt, without, onClose };
    const sandbox = new ProcessSandbox({ id, level, limits, mountPoint, filter, keeper, cgroup, ...proc, ...given });
    await sandbox.upload(files, signal);
    undo.move();
    return sandbox;
  }

  async #startLite({
    limits,
    network,
    reach,
    prepared,
    ttlMs,
    files,
    emptyFolders,
    signal,
  }: Settings): Promise<Sandbox> {
    if (network !== "none" || reach.length > 0) {
      throw new SandboxError("UNAVAILABLE", "level C has no network of its own: a sandbox with one needs level A or B");
    }
    if (emptyFolders.length > 0) {
      const [first = ""] = emptyFolders;
      throw new SandboxError("UNAVAILABLE", `level C has no folders of its own but two: ${first} needs level A or B`);
    }
    const id = ownedName();
    const folder = await makeLiteFolder({ parent: this.#lite, id, lower: prepared?.path, signal });
    const filter = seccompFilter(process.arch as "x64", { network, shared: true });
    const onClose = (): unknown => this.#open.delete(sandbox);
    const sandbox = new LiteSandbox({ id, limits, ttlMs, folder, filter, without: this.#without, onClose });
    try {
      await sandbox.upload(files, signal);
      return sandbox;
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }
}

type Settings = ReturnType<typeof openSettings> &
  Pick<ProcessOpenOptions, "sockets" | "readable" | "needsProc"> &
  Partial<Pick<ProcessSandboxOptions, "env" | "endsWithIt">>;

interface Found {
  readonly hierarchies: Hierarchies | undefined;
  readonly reasons: Reasons;
  readonly ownProc: boolean;
}

/** What bubblewrap says in a container whose /proc is masked: the kernel lets nobody see more of it by a new one. */
const NO_PROC = /mount proc on/u;

function findGroups(): Found {
  const reasons: Reasons = {};
  if (process.platform !== "linux" || !isFilterable(process.arch)) {
    const why = `only Linux on x64 and arm64 has it, this is ${process.platform} on ${process.arch}`;
    return { hierarchies: undefined, ownProc: true, reasons: { A: why, B: why, C: why } };
  }
  try {
    return { hierarchies: findHierarchies(), ownProc: true, reasons };
  } catch (error) {
    return {
      hierarchies: undefined,
      ownProc: true,
      reasons: { A: `no cgroups: ${WhetstoneError.from(error).message}` },
    };
  }
}

function unavailable(what: string, reasons: Reasons, only?: SandboxLevel): SandboxError {
  const told = LEVELS.filter((level) => level in reasons && (only ?? level) === level);
  return new SandboxError(
    "UNAVAILABLE",
    [what, ...told.map((level) => `level ${level}: ${reasons[level]}`)].join("; "),
  );
}

function defaultFolder(): string {
  return join(tmpdir(), `whetstone-sandboxes-${process.getuid?.() ?? 0}`);
}

/** In a folder that all may write to, somebody else may have made it. */
function ownFolder(path: string, mode: number, owner = process.getuid?.() ?? 0): string {
  mkdirSync(path, { recursive: true });
  const { uid } = statSync(path);
  if (uid !== owner && uid !== process.getuid?.()) {
    throw new SandboxError("UNAVAILABLE", `${path} belongs to somebody else: remove it, or name another folder`);
  }
  if (uid !== owner) chownSync(path, owner, owner);
  chmodSync(path, mode);
  return path;
}
