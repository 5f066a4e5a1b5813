// SPDX-License-Identifier: Apache-2.0
/** `whet envs ls|describe`: environments that a job can name, as an env-runner describes them. */
import { toJson } from "@bufbuild/protobuf";
import { CapabilitiesSchema, type EnvironmentKind } from "@whetstone/proto/environments/v1/environments";

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
  const kinds = await kindsOf(flags, context);
  const { terminal } = context;
  if (flags.json === true) return terminal.json({ environments: kinds.map(summaryOf) });
  for (const line of formatTable(
    ["KIND", "WHAT IT IS"],
    kinds.map(({ kind, description }) => [kind, description]),
  ))
    terminal.line(line);
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
