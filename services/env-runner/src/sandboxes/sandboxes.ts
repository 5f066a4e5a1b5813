// SPDX-License-Identifier: Apache-2.0
import { hostname } from "node:os";
import {
  KubernetesBackend,
  LEVELS,
  ProcessBackend,
  type SandboxBackend,
  SandboxError,
  type SandboxLevel,
} from "@whetstone/sandbox";
import { DockerBackend } from "@whetstone/sandbox/docker";
import { EpisodeError } from "@whetstone/sdk";
import { LibraryStore, StateStore } from "@whetstone/swe";
import type { SandboxChoice, SandboxArguments } from "./choice.ts";
import { GrpcPodClaims, type GrpcPodClaimsOptions, type SandboxSource } from "./grpc-pod-claims.ts";
import { PodsByImage } from "./pods-by-image.ts";

export interface SandboxesOptions {
  /** Who gives pods away. Absent: this env-runner was told of no controller. */
  readonly source?: SandboxSource | undefined;
  /** The daemon of containers. Absent: this env-runner may not use a container engine. */
  readonly daemonPath?: string | undefined;
}

/** The sandboxes of this process's environments. Which there can be is found out when the first environment needs one. */
export class Sandboxes implements AsyncDisposable {
  readonly #options: SandboxesOptions;
  readonly #backends = new Map<string, Promise<SandboxBackend>>();
  /** By backend and folder: what is prepared in them is shared by all episodes. */
  readonly #libraries = new Map<string, LibraryStore>();
  readonly #states = new Map<string, StateStore>();

  constructor(options: SandboxesOptions = {}) {
    this.#options = options;
  }

  /** @throws EpisodeError INFRASTRUCTURE that says what is missing; what was missing may be there the next time. */
  async backend({ sandbox, sandboxLevel: least }: SandboxArguments): Promise<SandboxBackend> {
    const backend = await this.#started(sandbox);
    if (sandbox.network.length > 0 && backend.level === "C") {
      const message = "sandbox.network: a sandbox of level C has no network of its own; A or B is needed";
      throw new EpisodeError("INFRASTRUCTURE", message, { code: "FAILED_PRECONDITION" });
    }
    if (least === undefined || isAtLeast(backend.level, least)) return backend;
    const message = `sandboxLevel: ${least} is wanted at least, and here is only level ${backend.level}`;
    throw new EpisodeError("INFRASTRUCTURE", message, { code: "FAILED_PRECONDITION" });
  }

  async #started(choice: SandboxChoice): Promise<SandboxBackend> {
    const key = keyOf(choice);
    const starting = this.#backends.get(key) ?? this.#start(choice);
    this.#backends.set(key, starting);
    try {
      return await starting;
    } catch (error) {
      this.#backends.delete(key);
      if (!(error instanceof SandboxError)) throw error;
      throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
    }
  }

  /** @throws EpisodeError INFRASTRUCTURE */
  async libraries(
    folder: string,
    args: SandboxArguments,
  ): Promise<{ backend: SandboxBackend; libraries: LibraryStore }> {
    const backend = await this.backend(args);
    const key = `${keyOf(args.sandbox)} ${folder}`;
    const libraries = this.#libraries.get(key) ?? new LibraryStore(folder, backend);
    this.#libraries.set(key, libraries);
    return { backend, libraries };
  }

  /** What sandboxes of repositories begin with: folders, or without a folder the tasks' images. @throws EpisodeError INFRASTRUCTURE */
  async repositories(
    folder: string | undefined,
    args: SandboxArguments,
  ): Promise<{ backend: SandboxBackend; states?: StateStore }> {
    const backend = await this.backend(args);
    if (folder === undefined) return { backend };
    const key = `${keyOf(args.sandbox)} ${folder}`;
    const states = this.#states.get(key) ?? new StateStore(folder, backend);
    this.#states.set(key, states);
    return { backend, states };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const states of this.#states.values()) await states[Symbol.asyncDispose]();
    for (const libraries of this.#libraries.values()) await libraries[Symbol.asyncDispose]();
    const backends = await Promise.allSettled(this.#backends.values());
    for (const each of backends) if (each.status === "fulfilled") await each.value[Symbol.asyncDispose]();
  }

  async #start(choice: SandboxChoice): Promise<SandboxBackend> {
    switch (choice.backend) {
      case "process":
        return await ProcessBackend.start();
      case "docker":
        return await this.#startDocker(choice);
      case "kubernetes":
        return await this.#startKubernetes(choice);
    }
  }

  async #startDocker({ image, pull }: Extract<SandboxChoice, { backend: "docker" }>): Promise<SandboxBackend> {
    const { daemonPath } = this.#options;
    if (daemonPath !== undefined) return await DockerBackend.start({ daemonPath, image, pull });
    const why =
      "sandbox.backend: docker: this env-runner may not use a container engine (WHETSTONE_SANDBOX_DAEMON_PATH)";
    throw new SandboxError("UNAVAILABLE", why);
  }

  async #startKubernetes({ pool }: Extract<SandboxChoice, { backend: "kubernetes" }>): Promise<SandboxBackend> {
    const { source } = this.#options;
    if (source === undefined) {
      const why =
        "sandbox.backend: kubernetes: this env-runner knows no controller that has pods (WHETSTONE_ARTIFACT_ADDRESS)";
      throw new SandboxError("UNAVAILABLE", why);
    }
    const start = (pool: GrpcPodClaimsOptions["pool"]): Promise<KubernetesBackend> =>
      KubernetesBackend.start(new GrpcPodClaims({ source, pool, owner: hostname() }));
    return pool === undefined ? new PodsByImage((image) => start({ image })) : await start({ name: pool });
  }
}

function isAtLeast(level: SandboxLevel, least: SandboxLevel): boolean {
  const known: readonly SandboxLevel[] = LEVELS;
  return known.includes(level) && level <= least;
}

function keyOf(choice: SandboxChoice): string {
  switch (choice.backend) {
    case "process":
      return "process";
    case "docker":
      return `docker/${choice.pull}/${choice.image ?? ""}`;
    case "kubernetes":
      return `kubernetes/${choice.pool ?? ""}`;
  }
}
