// SPDX-License-Identifier: Apache-2.0
/** `whet envs ls|describe`: environments that a job can name, as an env-runner describes them. */
import { create, toJson } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import {
  CapabilitiesSchema,
  type EnvironmentKind,
  EnvironmentKindSchema,
} from "@whetstone/proto/environments/v1/environments";

import { badInput } from "../cli-error.ts";
import { ARGUMENT_HEADER, argumentRows, type Schema } from "../terminal/argument-rows.ts";
import { formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { connectPools } from "./pools.ts";

export interface EnvironmentFlags extends CommonOptions {
  readonly pool?: string;
}

/** A pool without env-runners may start one first. */
const DEADLINE_MS = 45_000;

export async function listEnvironments(flags: EnvironmentFlags, context: CommandContext): Promise<void> {
  const found = await kindsByPool(flags, context);
  const { terminal } = context;
  const listed = found.flatMap(({ pool, kinds }) => kinds.map((kind) => ({ pool, kind })));
  if (flags.json === true)
    return terminal.json({ environments: listed.map(({ pool, kind }) => ({ pool, ...summaryOf(kind) })) });
  const rows = listed.map(({ pool, kind: { kind, description } }) => [kind, pool, description]);
  for (const line of formatTable(["KIND", "POOL", "WHAT IT IS"], rows)) terminal.line(line);
  for (const { pool, trouble } of found) if (trouble !== "") terminal.line(`pool ${pool}: ${trouble}`);
}

interface PoolKinds {
  readonly pool: string;
  readonly kinds: readonly EnvironmentKind[];
  /** Why its env-runners were not asked. */
  readonly trouble: string;
}

/** Of all pools, or of the one that is asked for. Nobody starts an env-runner only to be listed. */
async function kindsByPool(flags: EnvironmentFlags, context: CommandContext): Promise<PoolKinds[]> {
  if (flags.pool !== undefined) return [{ pool: flags.pool, kinds: await kindsOf(flags, context), trouble: "" }];
  await using client = connectPools(flags, context);
  const { pools } = await client.listPools({}, { deadlineMs: DEADLINE_MS, signal: context.signal });
  return await Promise.all(
    pools.map(async ({ name: pool, ready, kinds }): Promise<PoolKinds> => {
      const named = kinds.map((kind) => create(EnvironmentKindSchema, { kind }));
      if (ready === 0) return { pool, kinds: named, trouble: "no env-runner is ready" };
      try {
        const all = await kindsOf({ ...flags, pool }, context);
        return { pool, kinds: all.filter(({ kind }) => kinds.length === 0 || kinds.includes(kind)), trouble: "" };
      } catch (error) {
        return { pool, kinds: named, trouble: WhetstoneError.from(error).message };
      }
    }),
  );
}

export async function describeEnvironment(
  kind: string,
  flags: EnvironmentFlags,
  context: CommandContext,
): Promise<void> {
  const kinds = await kindsOf(flags, context);
  const found = kinds.find((one) => one.kind === kind);
  if (!found) {
    const known = kinds.map((one) => one.kind).join(", ");
    throw badInput([{ path: "<kind>", reason: `unknown environment "${kind}"; known: ${known || "none"}` }]);
  }
  const [args, action] = [schemaOf(found.argsSchemaJson), schemaOf(found.actionSchemaJson)];
  const { terminal } = context;
  if (flags.json === true) return terminal.json({ ...summaryOf(found), args, action });
  terminal.line(`${kind}: ${found.description}`);
  terminal.line();
  for (const line of formatTable(ARGUMENT_HEADER, argumentRows(args))) terminal.line(line);
  terminal.line();
  terminal.line("A job gives them in environment.args; what a task's payload says goes first.");
}

async function kindsOf({ pool = "", ...flags }: EnvironmentFlags, context: CommandContext): Promise<EnvironmentKind[]> {
  await using client = connectPools(flags, context);
  const { kinds } = await client.listEnvironments({ pool }, { deadlineMs: DEADLINE_MS, signal: context.signal });
  return kinds.toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
}

function summaryOf({ kind, description, capabilities }: EnvironmentKind): Record<string, unknown> {
  const can = capabilities && toJson(CapabilitiesSchema, capabilities, { alwaysEmitImplicit: true });
  return { kind, description, capabilities: can };
}

function schemaOf(json: string): Schema {
  return json === "" ? {} : (JSON.parse(json) as Schema);
}
