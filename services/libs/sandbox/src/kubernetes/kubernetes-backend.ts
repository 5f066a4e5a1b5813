// SPDX-License-Identifier: Apache-2.0
import { DaemonLink } from "../daemon/daemon-link.ts";
import { DaemonSandbox } from "../daemon/daemon-sandbox.ts";
import { packState } from "../daemon/pack-state.ts";
import { SandboxError } from "../failure.ts";
import { openSettings } from "../open-settings.ts";
import type { OpenOptions, PreparedState, Sandbox, SandboxBackend, SandboxLevel } from "../sandbox.ts";
import type { PodClaims, PoolLimits } from "./claims.ts";
import { TlsConnection } from "./tls-connection.ts";

export interface KubernetesBackendOptions {
  readonly claims: PodClaims;
  /** For messages. */
  readonly pool: string;
}

const MIB = 1024 * 1024;

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
    const { limits, ttlMs, files, reach, prepared, signal } = openSettings(options);
    this.#requireRoom(options);
    const { withAnother, beside } = options;
    const claimed = await this.#claims.claim({ ttlMs, withAnother, beside: beside?.id, signal });
    const { id } = claimed;
    const claims = this.#claims;
    const connection = new TlsConnection(claimed);
    const host = {
      id,
      what: "pod",
      connection,
      fate: () => claims.fate(id),
      release: () => claims.release(id),
    } as const;
    const link = new DaemonLink(host, performance.now() + ttlMs);
    const onClose = (): unknown => this.#open.delete(sandbox);
    const processMemoryBytes = limits.memoryMiB * MIB;
    const sandbox = new DaemonSandbox(link, { level: "pod", limits: { ...limits, processMemoryBytes }, onClose });
    this.#open.add(sandbox);
    try {
      await sandbox.reach(reach, signal);
      if (prepared) await sandbox.begin(prepared.path, signal);
      await sandbox.upload(files, signal);
      return sandbox;
    } catch (error) {
      await sandbox.close().catch(() => undefined);
      throw error;
    }
  }

  /** Packed once; every sandbox that begins with it gets it over the network. */
  prepare(folder: string, signal?: AbortSignal): Promise<PreparedState> {
    return packState(folder, { isCompressed: true, signal });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([...this.#open].map((sandbox) => sandbox.close()));
  }

  /** What is asked for by name, and the pool does not have, is refused by name. */
  #requireRoom({ level, imageFolders: [folder] = [], limits = {} }: OpenOptions): void {
    if (folder !== undefined)
      throw unavailable(`${folder} of the image is to be written, and pods have only /workspace and /tmp for that`);
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
