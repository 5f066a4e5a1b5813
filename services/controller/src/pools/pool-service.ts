// SPDX-License-Identifier: Apache-2.0
import { requireRules } from "@whetstone/contract/check";
import { WhetstoneError } from "@whetstone/core";
import { type Pool, PoolService, ScalePoolRequestSchema } from "@whetstone/proto/pools/v1/pools";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { PoolDirectory } from "./pool-directory.ts";

export function poolService(pools: PoolDirectory): ServiceImplementation {
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
  });
}
