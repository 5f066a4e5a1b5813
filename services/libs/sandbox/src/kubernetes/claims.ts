// SPDX-License-Identifier: Apache-2.0
import type { HostFate } from "../daemon/daemon-link.ts";

/** What a pod of a pool is, and may take, all its commands together. */
export interface PoolFacts {
  readonly name: string;
  readonly image: string;
  /** Of the image, which its commands may write. */
  readonly imageFolders: readonly string[];
  readonly memoryMiB: number;
  readonly cpus: number;
  readonly diskMiB: number;
}

/** A pod that is ours alone until it is released. Certificates and keys are PEM. */
export interface ClaimedPod {
  readonly id: string;
  /** Of its daemon, "host:port". */
  readonly address: string;
  /** What the daemon shows. */
  readonly serverCertificate: string;
  /** What we show: of this claim only. */
  readonly certificate: string;
  readonly key: string;
}

export interface ClaimOptions {
  readonly ttlMs: number;
  /** Another is claimed right after it: wait until the pool has room for both. */
  readonly withAnother?: boolean | undefined;
  /** The claim that this is the other of. */
  readonly beside?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Whoever gives pods away. All of it @throws SandboxError UNAVAILABLE, or what says that nobody answered. */
export interface PodClaims {
  /** @throws SandboxError UNAVAILABLE naming the pools that there are */
  pool(signal?: AbortSignal): Promise<PoolFacts>;
  claim(options: ClaimOptions): Promise<ClaimedPod>;
  /** Harmless twice. */
  release(id: string): Promise<void>;
  fate(id: string): Promise<HostFate>;
}
