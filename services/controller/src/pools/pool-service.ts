// SPDX-License-Identifier: Apache-2.0
import { requireRules } from "@whetstone/contract/check";
import { WhetstoneError } from "@whetstone/core";
import { DEFAULT_POOL } from "@whetstone/messaging";
import type { EnvironmentKind } from "@whetstone/proto/environments/v1/environments";
import { type Pool, PoolService, ScalePoolRequestSchema } from "@whetstone/proto/pools/v1/pools";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { FindHost } from "./environment-hosts.ts";
import type { PoolDirectory } from "./pool-directory.ts";

const DESCRIBE_MS = 5_000;

export function poolService(pools: PoolDirectory, findHost: FindHost): ServiceImplementation {
  const get = async (name: string): Promise<Pool> => {
    const pool = await pools.find(name);
    if (pool) return pool;
    const known = (await pools.list()).map((each) => each.name);
    throw new WhetstoneError("NOT_FOUND", `there is no pool "${name}"; known: ${known.join(", ") || "none"}`);
  };
  return implement(PoolService, {
    listPools: async () => ({ pools: await pools.list() }),
    getPool: async ({ name }) => ({ pool: await get(name) }),
    scalePool: async (request) => {
      requireRules(ScalePoolRequestSchema, request);
      const { name, replicas } = request;
      await get(name);
      return { pool: await pools.scale(name, replicas) };
    },
    listEnvironments: async ({ pool }) => ({ kinds: await kindsOf(findHost, pool || DEFAULT_POOL) }),
  });
}

async function kindsOf(findHost: FindHost, pool: string): Promise<EnvironmentKind[]> {
  const { client, violation } = await findHost(pool);
  if (violation) throw new WhetstoneError("NOT_FOUND", violation.reason);
  if (!client) {
    const advice = `\`whet pools get ${pool}\` says why`;
    throw new WhetstoneError("UNAVAILABLE", `pool "${pool}" has no env-runner to ask: ${advice}`, { retry: "never" });
  }
  await using runner = client;
  return (await runner.describe({}, { deadlineMs: DESCRIBE_MS })).kinds;
}
