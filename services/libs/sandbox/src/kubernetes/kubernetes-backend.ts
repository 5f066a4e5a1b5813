// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { WhetstoneError } from "@whetstone/core";
import { SandboxError } from "../failure.ts";
import { openSettings } from "../open-settings.ts";
import type { OpenOptions, PreparedState, Sandbox, SandboxBackend, SandboxLevel } from "../sandbox.ts";
import type { PodClaims, PoolLimits } from "./claims.ts";
import { Pod } from "./pod.ts";
import { PodSandbox } from "./pod-sandbox.ts";

export interface KubernetesBackendOptions {
  readonly claims: PodClaims;
  /** For messages. */
  readonly pool: string;
}

const PREPARE_MS = 600_000;
const run = promisify(execFile);

/** Sandboxes that are pods, each claimed from a pool for one episode and deleted after it. */
export class KubernetesBackend implements SandboxBackend {
  readonly level: SandboxLevel = "pod";
  readonly #claims: PodClaims;
  readonly #pool: string;
  readonly #limits: PoolLimits;
  readonly #open = new Set<Sandbox>();

  private constructor({ claims, pool }: KubernetesBackendOptions, limits: PoolLimits) {
    this.#claims = claims;
    this.#pool = pool;
    this.#limits = limits;
  }

  /** @throws SandboxError UNAVAILABLE when there is no such pool */
  static async start(options: KubernetesBackendOptions, signal?: AbortSignal): Promise<KubernetesBackend> {
    return new KubernetesBackend(options, await options.claims.limits(signal));
  }

  async open(options: OpenOptions = {}): Promise<Sandbox> {
    const { limits, ttlMs, files, prepared, signal } = openSettings(options);
    this.#requireRoom(options);
    const claimed = await this.#claims.claim({ ttlMs, signal });
    const pod = new Pod(this.#claims, claimed, performance.now() + ttlMs);
    const onClose = (): unknown => this.#open.delete(sandbox);
    const sandbox = new PodSandbox(pod, limits, onClose);
    this.#open.add(sandbox);
    try {
      if (prepared) await sandbox.begin(prepared.path, signal);
      await sandbox.upload(files, signal);
      return sandbox;
    } catch (error) {
      await sandbox.close().catch(() => undefined);
      throw error;
    }
  }

  /** Packed once; every sandbox that begins with it gets it over the network. */
  async prepare(folder: string, signal?: AbortSignal): Promise<PreparedState> {
    const own = await mkdtemp(join(tmpdir(), "whetstone-prepared-"));
    const remove = (): Promise<void> => rm(own, { recursive: true, force: true });
    const path = join(own, "state.tar.gz");
    try {
      const args = ["--create", "--gzip", "--format=gnu", "--file", path, "--directory", folder, "."];
      await run("tar", args, { timeout: PREPARE_MS, ...(signal ? { signal } : {}) });
    } catch (cause) {
      await remove();
      const why = WhetstoneError.from(cause).message;
      throw new SandboxError("START", `${folder} could not be prepared: ${why}`, { cause });
    }
    return { path, [Symbol.asyncDispose]: remove };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([...this.#open].map((sandbox) => sandbox.close()));
  }

  /** What is asked for by name, and the pool does not have, is refused by name. */
  #requireRoom({ level, limits = {} }: OpenOptions): void {
    if (level !== undefined && level !== this.level)
      throw unavailable(`level ${level} is of sandboxes on the env-runner's own machine`);
    const [name, wanted, most] =
      (["memoryMiB", "cpus", "diskMiB"] as const)
        .map((name) => [name, limits[name] ?? 0, this.#limits[name]] as const)
        .find(([, wanted, most]) => wanted > most) ?? [];
    if (name !== undefined)
      throw unavailable(
        `${name} ${wanted} is asked for, its pods have ${most}: use a pool with larger pods`,
        this.#pool,
      );
  }
}

function unavailable(why: string, pool?: string): SandboxError {
  return new SandboxError("UNAVAILABLE", pool === undefined ? why : `the sandbox pool "${pool}" has none: ${why}`);
}
