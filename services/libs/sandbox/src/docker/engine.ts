// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { Duplex, Readable } from "node:stream";
import type Dockerode from "dockerode";
import { raceSignal, sleep, WhetstoneError, withTimeout } from "@whetstone/core";
import type { HostFate } from "../daemon/daemon-link.ts";
import { SandboxError } from "../failure.ts";
import { LABELS } from "./container-settings.ts";

const CALL_MS = 60_000;
const PULL_MS = 1_800_000;
const CREATIONS = 3;
const REMOVALS = 100;
const AGAIN_MS = 100;
/** How late an engine may note what has ended a container. */
const NOTED_MS = 300;
const OOM_TO_END_MS = 2000;

/** What is asked of a container engine's machine. */
export interface EngineFacts {
  readonly cores: number;
  readonly boundsSwap: boolean;
}

export interface ImageFacts {
  readonly id: string;
  /** Folders for which the engine would make volumes. */
  readonly volumes: readonly string[];
}

export interface FoundContainer {
  readonly id: string;
  readonly name: string;
  readonly machine: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

type Info = Readonly<Record<string, unknown>>;

/** The few calls of a container engine's API that sandboxes need. Every one has a deadline. */
export class Engine {
  readonly #api: Dockerode;

  private constructor(api: Dockerode) {
    this.#api = api;
  }

  /** The one that DOCKER_HOST names, or the one of this machine. @param socketPath  another one */
  static async connect(socketPath?: string): Promise<Engine> {
    // It is large, and most processes never need it.
    const { default: Api } = await import("dockerode");
    return new Engine(new Api(socketPath === undefined ? undefined : { socketPath }));
  }

  /** @throws SandboxError UNAVAILABLE that names what this engine cannot do */
  async facts(): Promise<EngineFacts> {
    const info = await this.#ask<Info>("no container engine can be had", () => this.#api.info());
    const missing = missingOf(info);
    if (missing.length > 0) throw unavailable(`the container engine has no ${missing.join(", no ")}`);
    return { cores: Number(info["NCPU"]), boundsSwap: info["SwapLimit"] === true };
  }

  /** @returns undefined: it is not there */
  async image(name: string, signal?: AbortSignal): Promise<ImageFacts | undefined> {
    const inspect = () => absentAs(undefined, this.#api.getImage(name).inspect());
    const found = await this.#ask(`the image "${name}" could not be looked at`, inspect, signal);
    return found && { id: found.Id, volumes: Object.keys({ ...found.Config.Volumes }) };
  }

  async pull(name: string, signal?: AbortSignal): Promise<void> {
    const pull = async (): Promise<void> => {
      const progress = await this.#api.pull(name);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#api.modem.followProgress(progress, (error: Error | null) => {
        if (error === null) resolve();
        else reject(error);
      });
      await promise;
    };
    await this.#ask(`the image "${name}" could not be pulled`, pull, signal, PULL_MS);
  }

  /** Names are used once: a second attempt that finds the name taken has found what the first one made. @returns its id */
  async create(settings: Dockerode.ContainerCreateOptions & { readonly name: string }): Promise<string> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return (await timed(() => this.#api.createContainer(settings))).id;
      } catch (error) {
        if (statusOf(error) === 409 && attempt > 1) return (await this.#inspect(settings.name)).Id;
        const isAmbiguous = statusOf(error) === undefined || statusOf(error) === 500;
        if (!isAmbiguous || attempt === CREATIONS) throw startError("no container could be made", error);
      }
      await sleep(attempt * AGAIN_MS);
    }
  }

  /** What a folder of a container's image holds, as an archive. The container is not to be started: the answer would wait for its end. */
  async folder(id: string, folder: string): Promise<Readable> {
    const read = () => this.#api.getContainer(id).getArchive({ path: `${folder}/.` });
    return (await this.#ask(`the image's folder ${folder} could not be read`, read)) as Readable;
  }

  /** Before it starts, so that nothing is missed. */
  async attach(id: string): Promise<Duplex> {
    const streams = { stream: true, stdin: true, stdout: true, stderr: true, hijack: true };
    const attach = () => this.#api.getContainer(id).attach(streams);
    return (await this.#ask("the container could not be attached to", attach)) as Duplex;
  }

  async start(id: string, signal?: AbortSignal): Promise<void> {
    await this.#ask("the container could not be started", () => this.#api.getContainer(id).start(), signal);
  }

  /** Returns when it is gone. Harmless where it is gone already. @param id  or name */
  async remove(id: string): Promise<void> {
    const container = this.#api.getContainer(id);
    for (let attempt = 1; attempt <= REMOVALS; attempt += 1) {
      try {
        await timed(() => container.remove({ force: true, v: true }));
      } catch (error) {
        if (statusOf(error) === 404) return;
        // 409: it ended by itself and is just being removed.
        if (statusOf(error) !== 409) throw startError("the container could not be removed", error);
        await sleep(AGAIN_MS);
      }
    }
    throw new WhetstoneError("DEADLINE_EXCEEDED", `container ${id} is still there after ${REMOVALS} attempts`);
  }

  /** @param since  when it was made, milliseconds since 1970 */
  async fate(id: string, since: number): Promise<HostFate> {
    const found = await timed(() => absentAs(undefined, this.#api.getContainer(id).inspect()));
    if (found?.State.Running) return { kind: "there" };
    // Its own word, OOMKilled, says that a command was ended, at some time.
    if (await this.#ranOutOfMemory(id, since)) return { kind: "limit", failure: "MEMORY" };
    return { kind: "gone", why: found === undefined ? "the container was removed" : "the container has ended" };
  }

  /** All containers of sandboxes, whoever made them. */
  async list(): Promise<FoundContainer[]> {
    const options = { all: true, filters: { label: [LABELS.sandbox] } };
    const found = await timed(() => this.#api.listContainers(options));
    return found.map(({ Id: id, Names: [name = ""], Labels: labels }) => ({
      id,
      name: name.replace(/^\//u, ""),
      machine: labels[LABELS.machine] ?? "",
      expiresAt: Number(labels[LABELS.expires] ?? 0),
    }));
  }

  /** The engine tells what it has noted; a container that has been removed says nothing. */
  async #ranOutOfMemory(id: string, since: number): Promise<boolean> {
    const filters = { container: [id], event: ["oom", "kill", "die"] };
    const span = { since: Math.floor(since / 1000), until: (Date.now() + NOTED_MS) / 1000 };
    return await timed(async () => {
      let lines = "";
      for await (const part of await this.#api.getEvents({ ...span, filters })) lines += String(part);
      const events = lines.split("\n").filter((line) => line.trim() !== "");
      return diedOfMemory(events.map((line) => JSON.parse(line) as EngineEvent));
    });
  }

  async #inspect(name: string): Promise<Dockerode.ContainerInspectInfo> {
    return await this.#ask(`the container ${name} is not there`, () => this.#api.getContainer(name).inspect());
  }

  async #ask<T>(what: string, work: () => Promise<T>, signal?: AbortSignal, timeoutMs = CALL_MS): Promise<T> {
    try {
      return await timed(work, timeoutMs, signal);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw unavailable(`${what}: ${WhetstoneError.from(error).message}`, error);
    }
  }
}

export interface EngineEvent {
  readonly Action: string;
  /** Nanoseconds since 1970. */
  readonly timeNano: number;
}

/** It ended just after the kernel looked for something to end there, and nobody else asked for it. */
export function diedOfMemory(events: readonly EngineEvent[]): boolean {
  const last = (action: string): number => events.findLast(({ Action }) => Action === action)?.timeNano ?? -Infinity;
  const isKilled = events.some(({ Action }) => Action === "kill");
  const [died, ranOut] = [last("die"), last("oom")];
  return !isKilled && died >= ranOut && died - ranOut < OOM_TO_END_MS * 1e6;
}

function timed<T>(work: () => Promise<T>, timeoutMs = CALL_MS, signal?: AbortSignal): Promise<T> {
  return withTimeout((either) => raceSignal(work(), either), { timeoutMs, signal });
}

/** Less than these is no sandbox. */
function missingOf(info: Info): string[] {
  const security = (info["SecurityOptions"] as string[] | undefined) ?? [];
  const hasSeccomp = security.some((option) => /^name=seccomp(?!.*profile=unconfined)/u.test(option));
  return Object.entries({
    "Linux containers": info["OSType"] === "linux",
    "limit of memory": info["MemoryLimit"] === true,
    "limit of swap, and this machine swaps": info["SwapLimit"] === true || !swaps(),
    "limit of CPU": info["CpuCfsQuota"] === true,
    "limit of processes": info["PidsLimit"] === true,
    "seccomp filter": hasSeccomp,
  }).flatMap(([name, isThere]) => (isThere ? [] : [name]));
}

function swaps(): boolean {
  try {
    return Number(/^SwapTotal:\s+(\d+)/mu.exec(readFileSync("/proc/meminfo", "utf8"))?.[1] ?? 1) > 0;
  } catch {
    return true;
  }
}

function statusOf(error: unknown): number | undefined {
  return (error as { statusCode?: number } | undefined)?.statusCode;
}

async function absentAs<T, D>(instead: D, work: Promise<T>): Promise<T | D> {
  try {
    return await work;
  } catch (error) {
    if (statusOf(error) === 404) return instead;
    throw error;
  }
}

function startError(what: string, cause: unknown): SandboxError {
  return new SandboxError("START", `${what}: ${WhetstoneError.from(cause).message}`, { cause });
}

function unavailable(message: string, cause?: unknown): SandboxError {
  return new SandboxError("UNAVAILABLE", message, { cause });
}
