// SPDX-License-Identifier: Apache-2.0
import { DaemonLink } from "../daemon/daemon-link.ts";
import { DaemonSandbox } from "../daemon/daemon-sandbox.ts";
import { packState } from "../daemon/pack-state.ts";
import { SandboxError } from "../failure.ts";
import { openSettings } from "../open-settings.ts";
import type { OpenOptions, PreparedState, Sandbox, SandboxBackend, SandboxLevel } from "../sandbox.ts";
import type { PodClaims, PoolFacts } from "./claims.ts";
import { TlsConnection } from "./tls-connection.ts";

const MIB = 1024 * 1024;

/** Sandboxes that are pods, each claimed from a pool for one episode and deleted after it. */
export class KubernetesBackend implements SandboxBackend {
  readonly level: SandboxLevel = "pod";
  readonly #claims: PodClaims;
  #pool: PoolFacts;
  readonly #open = new Set<Sandbox>();

  private constructor(claims: PodClaims, pool: PoolFacts) {
    this.#claims = claims;
    this.#pool = pool;
  }

  /** @throws SandboxError UNAVAILABLE when there is no such pool */
  static async start(claims: PodClaims, signal?: AbortSignal): Promise<KubernetesBackend> {
    return new KubernetesBackend(claims, await claims.pool(signal));
  }

  async open(options: OpenOptions = {}): Promise<Sandbox> {
    const { limits, ttlMs, files, reach, prepared, signal } = openSettings(options);
    await this.#requireRoom(options);
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

  /** A pool may have been changed since it was looked at. */
  async #requireRoom(options: OpenOptions): Promise<void> {
    if (this.#lacks(options) === undefined) return;
    this.#pool = await this.#claims.pool(options.signal);
    const why = this.#lacks(options);
    if (why !== undefined) throw new SandboxError("UNAVAILABLE", why);
  }

  /** What is asked for by name, and the pool does not have. */
  #lacks({ level, image, imageFolders = [], emptyFolders = [], limits = {} }: OpenOptions): string | undefined {
    const pool = this.#pool;
    const none = `the sandbox pool "${pool.name}" has none`;
    if (level !== undefined && level !== this.level)
      return `level ${level} is of sandboxes on the env-runner's own machine`;
    if (image !== undefined && image !== pool.image)
      return `${none}: its pods have the image ${pool.image}, and ${image} is asked for`;
    const folder = [...imageFolders, ...emptyFolders].find(
      (wanted) => !pool.imageFolders.some((given) => isWithin(given, wanted)),
    );
    if (folder !== undefined)
      return `${none}: ${folder} of the image is to be written: name it in the pool's imageFolders`;
    const [name, wanted, most] =
      (["memoryMiB", "cpus", "diskMiB"] as const)
        .map((name) => [name, limits[name] ?? 0, pool[name]] as const)
        .find(([, wanted, most]) => wanted > most) ?? [];
    if (name === undefined) return undefined;
    return `${none}: ${name} ${wanted} is asked for, its pods have ${most}: use a pool with larger pods`;
  }
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
