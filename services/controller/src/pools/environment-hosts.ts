// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError, sleep } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import { type Nats, openKv, POOLS_BUCKET } from "@whetstone/messaging";
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
  /** Kinds that the pool's owner lets jobs name there. Absent: all that its env-runners have. */
  readonly kinds?: readonly string[] | undefined;
  /** Other pools that serve a kind: their owner says so, or their env-runners do now. */
  readonly servedBy?: (kind: string) => Promise<string[]>;
}

/** Finds an env-runner of a pool. Dispose the client that it gives. */
export type FindHost = (pool: string) => Promise<Host>;

/** One env-runner a pool, at known addresses. */
export function fixedHost(pools: ReadonlyMap<string, string>, tls: TlsIdentity | undefined): FindHost {
  const others = (pool: string) => [...pools].filter(([name]) => name !== pool);
  return (pool) => {
    const address = pools.get(pool);
    if (address === undefined) return Promise.resolve({ violation: unknownPool(pool, [...pools.keys()]) });
    return Promise.resolve({
      client: connect(address, tls),
      servedBy: (kind) => poolsThatServe(kind, others(pool), tls),
    });
  };
}

function connect(address: string, tls: TlsIdentity | undefined): Client {
  return createClient(EnvironmentService, address, { tls: tls?.to("env-runner") });
}

const ANSWER_MS = 3_000;

/** @param runners  by pool, the address of one */
async function poolsThatServe(
  kind: string,
  runners: readonly (readonly [pool: string, address: string])[],
  tls: TlsIdentity | undefined,
): Promise<string[]> {
  const asked = runners.map(async ([pool, address]) => {
    await using client = connect(address, tls);
    const { kinds } = await client.describe({}, { deadlineMs: ANSWER_MS });
    return kinds.some((described) => described.kind === kind) ? [pool] : [];
  });
  return (await Promise.allSettled(asked)).flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
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
    const { kinds } = object.spec;
    const told = { kinds, servedBy: (kind: string) => otherPoolsWith(kind, pool, deps) };
    const runner = (await findRunner(deps.nats, pool)) ?? (await waitForOne(deps, object));
    if (runner !== undefined) return { client: connect(runner.address, deps.tls), ...told };
    deps.logger.warn("environment_not_rehearsed", { pool, reason: "no env-runner came" });
    return told;
  };
}

/** A pool that names its kinds need not have an env-runner to be known by them. */
async function otherPoolsWith(kind: string, pool: string, { kube, nats, tls }: PooledDeps): Promise<string[]> {
  const others = (await kube.list(ENVIRONMENT_POOLS)).filter(({ metadata }) => metadata.name !== pool);
  const named = others.filter(({ spec }) => spec.kinds?.includes(kind)).map(({ metadata }) => metadata.name);
  const open = others.filter(({ spec }) => spec.kinds === undefined).map(({ metadata }) => metadata.name);
  const found = await Promise.all(open.map(async (name) => [name, (await findRunner(nats, name))?.address] as const));
  const runners = found.flatMap(([name, address]) => (address === undefined ? [] : [[name, address] as const]));
  return [...named, ...(await poolsThatServe(kind, runners, tls))].sort();
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
