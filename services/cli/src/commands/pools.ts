// SPDX-License-Identifier: Apache-2.0
/** `whet pools …`: env-runners, and how many of them there are. */
import { toJson } from "@bufbuild/protobuf";
import { type Pool, PoolSchema, PoolService } from "@whetstone/proto/pools/v1/pools";
import type { RpcClient } from "@whetstone/rpc";

import { clientOf } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import { badInput, CliError } from "../cli-error.ts";
import { formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export async function listPools(flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connectPools(flags, context);
  const { pools } = await client.listPools({});
  if (flags.json === true) return context.terminal.json({ pools: pools.map((pool) => toJson(PoolSchema, pool)) });
  if (pools.length === 0) return context.terminal.line("no pools yet: make an EnvironmentPool");
  print(pools, context);
}

export async function getPool(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connectPools(flags, context);
  show(present((await client.getPool({ name })).pool), flags, context);
}

export async function scalePool(
  name: string,
  count: string,
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  const replicas = Number(count);
  if (!Number.isSafeInteger(replicas) || replicas < 0 || count.trim() === "")
    throw badInput([{ path: "<n>", reason: `must be a whole number of at least 0, not "${count}"` }]);
  await using client = connectPools(flags, context);
  show(present((await client.scalePool({ name, replicas })).pool), flags, context);
}

export function connectPools(flags: CommonOptions, { environment }: CommandContext): RpcClient<typeof PoolService> {
  const address = controllerAddress(flags.data, environment);
  return clientOf(PoolService, { role: "controller", address }, environment);
}

function show(pool: Pool, flags: CommonOptions, context: CommandContext): void {
  if (flags.json === true) return context.terminal.json(toJson(PoolSchema, pool));
  print([pool], context);
  if (pool.message !== "") context.terminal.line(pool.message);
}

function print(pools: readonly Pool[], { terminal }: CommandContext): void {
  const rows = pools.map((pool) => [
    pool.name,
    String(pool.replicas),
    String(pool.ready),
    String(pool.draining),
    `${pool.busySlots}/${pool.slots}`,
    scalingOf(pool),
    pool.reason,
  ]);
  const header = ["POOL", "WANTED", "READY", "DRAINING", "BUSY SLOTS", "SCALES", "REASON"];
  for (const line of formatTable(header, rows)) terminal.line(line);
}

function scalingOf({ fixed, autoscaling }: Pool): string {
  if (fixed) return "fixed";
  return autoscaling ? `by itself, ${autoscaling.min} to ${autoscaling.max}` : "by hand";
}

function present(pool: Pool | undefined): Pool {
  if (pool) return pool;
  throw new CliError("CONTRACT_VIOLATION", "the controller answered without the pool");
}
