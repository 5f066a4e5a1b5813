// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError, sleep } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import { DEFAULT_POOL, type Nats, openKv, POOLS_BUCKET } from "@whetstone/messaging";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { type PoolRunner, PoolRecordSchema } from "@whetstone/proto/events/v1/events";
import { createClient, type RpcClient } from "@whetstone/rpc";
import type { Logger } from "@whetstone/telemetry";
import type { TlsIdentity } from "@whetstone/tls";
import { ENVIRONMENT_POOLS, type StoredPool, WANTED_UNTIL } from "../operator/environment-pool/schema.ts";
import type { Violation } from "../jobs/validation/validate-job.ts";

type Client = RpcClient<typeof EnvironmentService>;

/** An env-runner to rehearse with; what is wrong with the pool; or neither: nobody is there now. */
export interface Host {
  readonly client?: Client;
  readonly violation?: Violation;
}

/** Finds an env-runner of a pool. Dispose the client that it gives. */
export type FindHost = (pool: string) => Promise<Host>;

/** One env-runner at a known address. */
export function fixedHost(address: string, tls: TlsIdentity | undefined): FindHost {
  return (pool) =>
    Promise.resolve(
      pool === DEFAULT_POOL
        ? { client: createClient(EnvironmentService, address, { tls: tls?.to("env-runner") }) }
        : { violation: unknownPool(pool, [DEFAULT_POOL]) },
    );
}

export interface PooledDeps {
  readonly nats: Nats;
  readonly kube: Kube;
  readonly tls: TlsIdentity | undefined;
  readonly logger: Logger;
}

/** How long a pool without env-runners gets to start one. A job is not refused because none came: it waits as its tasks do. */
const PATIENCE_MS = 30_000;
const LOOK_MS = 500;
const WANTED_MS = 60_000;

/** Any env-runner that takes sessions. A pool that scales by itself is asked for one where there is none. */
export function pooledHost(deps: PooledDeps): FindHost {
  return async (pool) => {
    const object = await deps.kube.get(ENVIRONMENT_POOLS, pool);
    if (!object) return { violation: { ...unknownPool(pool, await poolNames(deps.kube)), curable: true } };
    const runner = (await findRunner(deps.nats, pool)) ?? (await waitForOne(deps, object));
    if (runner !== undefined)
      return { client: createClient(EnvironmentService, runner.address, { tls: deps.tls?.to("env-runner") }) };
    deps.logger.warn("environment_not_rehearsed", { pool, reason: "no env-runner came" });
    return {};
  };
}

async function waitForOne(deps: PooledDeps, { metadata, spec }: StoredPool): Promise<PoolRunner | undefined> {
  const { name } = metadata;
  if (spec.autoscaling.enabled) await wake(deps.kube, name);
  else if (spec.replicas === 0) return undefined; // Somebody wants none; nobody starts one behind their back.
  const until = performance.now() + PATIENCE_MS;
  while (performance.now() < until) {
    await sleep(LOOK_MS);
    const runner = await findRunner(deps.nats, name);
    if (runner !== undefined) return runner;
  }
  return undefined;
}

async function wake(kube: Kube, pool: string): Promise<void> {
  const annotations = { [WANTED_UNTIL]: new Date(Date.now() + WANTED_MS).toISOString() };
  await kube.patch(ENVIRONMENT_POOLS, pool, { metadata: { annotations } });
}

async function findRunner(nats: Nats, pool: string): Promise<PoolRunner | undefined> {
  const records = await openKv(nats, POOLS_BUCKET, PoolRecordSchema);
  const ready = (await records.get(pool))?.value.runners.filter(({ draining }) => !draining) ?? [];
  return ready[Math.floor(Math.random() * ready.length)];
}

async function poolNames(kube: Kube): Promise<string[]> {
  return (await kube.list(ENVIRONMENT_POOLS)).map(({ metadata }) => metadata.name);
}

function unknownPool(pool: string, known: readonly string[]): Violation {
  return { path: "environment.pool", reason: `unknown pool "${pool}"; known: ${known.join(", ") || "none"}` };
}

/** For settings that name neither. */
export function noHost(): FindHost {
  const message = "set WHETSTONE_ENV_ADDRESS, or run on Kubernetes with pools";
  return () => Promise.reject(new WhetstoneError("FAILED_PRECONDITION", message));
}
