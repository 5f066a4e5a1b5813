// SPDX-License-Identifier: Apache-2.0
import { accessSync, constants } from "node:fs";
import { resolve } from "node:path";
import { Gate, WhetstoneError, withTimeout } from "@whetstone/core";
import type { DaemonConnection } from "../daemon/connection.ts";
import type { CommandLimits } from "../daemon/daemon-execution.ts";
import { DaemonLink } from "../daemon/daemon-link.ts";
import { DaemonSandbox } from "../daemon/daemon-sandbox.ts";
import { packState } from "../daemon/pack-state.ts";
import { PipeConnection } from "../daemon/pipe-connection.ts";
import { SandboxError } from "../failure.ts";
import { openSettings } from "../open-settings.ts";
import { ownedName } from "../owned-name.ts";
import type { OpenOptions, PreparedState, Sandbox, SandboxBackend, SandboxLevel, SandboxLimits } from "../sandbox.ts";
import { attachedPipe } from "./attached-pipe.ts";
import { containerSettings, DAEMON_FILES } from "./container-settings.ts";
import { Engine, type EngineFacts, type ImageFacts } from "./engine.ts";
import type { ContainerGuard } from "./guards.ts";
import { machineId, Reaper } from "./reaper.ts";

export interface DockerBackendOptions {
  /** The program `sandboxd`, at a path of the engine's machine. */
  readonly daemonPath: string;
  /** Of sandboxes that name none themselves. */
  readonly image?: string | undefined;
  /** "never": an image that is not there is refused. "missing": it is pulled. Default "never". */
  readonly pull?: "never" | "missing" | undefined;
  /** Sandboxes at once; one more is refused. Default 200. */
  readonly maxSandboxes?: number | undefined;
  /** Of the engine. Default: what DOCKER_HOST says, else /var/run/docker.sock. */
  readonly socketPath?: string | undefined;
  /** For the escape suite: takes guards away, and shows a folder of the host. */
  readonly without?: ReadonlySet<ContainerGuard> | undefined;
  readonly hostFolder?: string | undefined;
}

type Settings = ReturnType<typeof openSettings>;

/** More at once only take CPU from each other. */
const STARTING = 8;
const ALIVE_MS = 30_000;
const UNLIMITED = Number.MAX_SAFE_INTEGER;

/** Sandboxes that are containers of an engine on this machine, each made for one episode and removed after it. */
export class DockerBackend implements SandboxBackend {
  readonly level: SandboxLevel = "container";
  readonly #options: DockerBackendOptions;
  readonly #engine: Engine;
  readonly #facts: EngineFacts;
  readonly #machine = machineId();
  readonly #reaper: Reaper;
  readonly #starting = new Gate(STARTING);
  readonly #open = new Set<Sandbox>();
  #opening = 0;

  private constructor(options: DockerBackendOptions, engine: Engine, facts: EngineFacts) {
    this.#options = { ...options, daemonPath: resolve(options.daemonPath) };
    this.#engine = engine;
    this.#facts = facts;
    this.#reaper = new Reaper(engine, this.#machine);
  }

  /** @throws SandboxError UNAVAILABLE that names what is missing: engine, limits, daemon, image */
  static async start(options: DockerBackendOptions, signal?: AbortSignal): Promise<DockerBackend> {
    requireDaemon(options.daemonPath);
    const engine = await Engine.connect(options.socketPath);
    const backend = new DockerBackend(options, engine, await engine.facts());
    try {
      if (options.image !== undefined) await backend.#imageOf(options.image, signal);
      await backend.#reaper.run();
      return backend;
    } catch (error) {
      await backend[Symbol.asyncDispose]();
      throw error;
    }
  }

  async open(options: OpenOptions = {}): Promise<Sandbox> {
    const settings = openSettings(options);
    const { level, image: name = this.#options.image, signal } = options;
    if (level !== undefined && level !== this.level)
      throw unavailable(`level ${level} is of sandboxes without a container engine`);
    if (name === undefined) throw unavailable("no image is named: say which one in sandbox.image");
    return await this.#counted(async () => this.#start(await this.#imageOf(name, signal), settings), signal);
  }

  /** Packed once; every sandbox that begins with it gets it by its pipe. */
  prepare(folder: string, signal?: AbortSignal): Promise<PreparedState> {
    return packState(folder, { isCompressed: false, signal });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([...this.#open].map((sandbox) => sandbox.close()));
    await this.#reaper[Symbol.asyncDispose]();
  }

  async #imageOf(name: string, signal: AbortSignal | undefined): Promise<ImageFacts> {
    let image = await this.#engine.image(name, signal);
    if (image === undefined && this.#options.pull === "missing") {
      await this.#engine.pull(name, signal);
      image = await this.#engine.image(name, signal);
    }
    if (image === undefined)
      throw unavailable(`the container engine has no image "${name}": docker pull ${name}, or sandbox.pull: missing`);
    const [volume] = image.volumes;
    if (volume !== undefined)
      throw unavailable(`the image "${name}" declares a volume (${volume}), whose size nothing would bound`);
    return image;
  }

  async #counted(start: () => Promise<Sandbox>, signal: AbortSignal | undefined): Promise<Sandbox> {
    const { maxSandboxes = 200 } = this.#options;
    if (this.#open.size + this.#opening >= maxSandboxes)
      throw new WhetstoneError("RESOURCE_EXHAUSTED", `${maxSandboxes} containers are open, which is the limit`);
    this.#opening += 1;
    try {
      return await this.#starting.run(start, signal);
    } finally {
      this.#opening -= 1;
    }
  }

  async #start({ id: image }: ImageFacts, settings: Settings): Promise<Sandbox> {
    const { limits, files, reach, prepared, signal } = settings;
    const name = ownedName();
    await using undo = new AsyncDisposableStack();
    // By its name: whether it was made may not be known.
    undo.defer(() => this.#engine.remove(name));
    const link = await this.#link(name, image, settings);
    const onClose = (): unknown => this.#open.delete(sandbox);
    const sandbox = new DaemonSandbox(link, { level: this.level, limits: this.#ofCommands(limits), onClose });
    undo.defer(() => sandbox.close());
    for (const folder of settings.imageFolders) await this.#copyFolder(sandbox, image, folder, settings);
    await sandbox.reach(reach, signal);
    if (prepared) await sandbox.begin(prepared.path, signal);
    await sandbox.upload(files, signal);
    undo.move();
    this.#open.add(sandbox);
    return sandbox;
  }

  /** From a container of the same image that is made for this and never starts. */
  async #copyFolder(
    to: DaemonSandbox,
    image: string,
    folder: string,
    { limits, ttlMs, signal }: Settings,
  ): Promise<void> {
    const name = ownedName();
    await using undo = new AsyncDisposableStack();
    undo.defer(() => this.#engine.remove(name));
    const own = this.#settings(name, image, { limits, ttlMs, imageFolders: [], emptyFolders: [] });
    const id = await this.#engine.create({ ...own, name });
    await to.beginFolder(folder, () => this.#engine.folder(id, folder), signal);
  }

  #settings(name: string, image: string, own: Pick<Settings, "limits" | "ttlMs" | "imageFolders" | "emptyFolders">) {
    const { daemonPath, without = new Set(), hostFolder } = this.#options;
    const { limits, ttlMs, imageFolders, emptyFolders } = own;
    const folders = { imageFolders, emptyFolders };
    const given = { name, image, daemonPath, machine: this.#machine, limits, ttlMs, ...folders, without, hostFolder };
    return containerSettings({ ...given, ...this.#facts });
  }

  #ofCommands({ wallMs, processes, openFiles }: SandboxLimits): CommandLimits {
    const { without = new Set() } = this.#options;
    return {
      wallMs,
      processes: without.has("processes") ? UNLIMITED : processes,
      openFiles: without.has("open files") ? DAEMON_FILES : openFiles,
      // Memory is limited as a whole, so that no process needs a limit of its own.
      processMemoryBytes: UNLIMITED,
    };
  }

  /** @returns when the container's daemon has answered */
  async #link(name: string, image: string, settings: Settings): Promise<DaemonLink> {
    const engine = this.#engine;
    const { ttlMs, signal } = settings;
    const made = Date.now();
    // Before the daemon's own clock begins, so that its end is not taken for a loss.
    const endsAt = performance.now() + ttlMs;
    const id = await engine.create({ ...this.#settings(name, image, settings), name });
    const { pipe, complaint } = attachedPipe(await engine.attach(id));
    const connection = new PipeConnection(pipe);
    try {
      await engine.start(id, signal);
      await answered(connection, signal);
    } catch (error) {
      connection[Symbol.dispose]();
      if (signal?.aborted || error instanceof SandboxError) throw error;
      const why = complaint().trim() || WhetstoneError.from(error).message;
      throw new SandboxError("START", `the container's daemon did not start: ${why}`, { cause: error });
    }
    const fate = () => engine.fate(id, made);
    const host = { id: name, what: "container", connection, fate, release: () => engine.remove(id) } as const;
    return new DaemonLink(host, endsAt);
  }
}

async function answered(connection: DaemonConnection, signal: AbortSignal | undefined): Promise<void> {
  const ask = (either: AbortSignal) => connection.call({ method: "GET", path: "/alive", signal: either });
  const { status } = await withTimeout(ask, { timeoutMs: ALIVE_MS, signal });
  if (status !== 204) throw new WhetstoneError("INTERNAL", `it answered ${status}`);
}

function requireDaemon(path: string): void {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    throw unavailable(`there is no program ${path}: make -C services/sandbox-daemon, or take it out of its image`);
  }
}

function unavailable(message: string): SandboxError {
  return new SandboxError("UNAVAILABLE", message);
}
