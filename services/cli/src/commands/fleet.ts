// SPDX-License-Identifier: Apache-2.0
/** `whet fleet …`: engines, what they serve, and how many of them there are. */
import { toJson } from "@bufbuild/protobuf";
import { policyLabel } from "@whetstone/core";
import {
  type Fleet,
  type FleetReplica,
  FleetSchema,
  FleetViewService,
  ListFleetsResponseSchema,
  ReplicaState,
} from "@whetstone/proto/inference/v1/inference";
import type { RpcClient } from "@whetstone/rpc";

import { clientOf } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import { badInput } from "../cli-error.ts";
import { formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export async function fleetStatus(flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const answer = await client.listFleets({});
  const { terminal } = context;
  if (flags.json === true) return terminal.json(toJson(ListFleetsResponseSchema, answer));
  const { policies, fleets } = answer;
  const wanted = policies.map(({ policy, policyVersion }) => policyLabel(policy, policyVersion));
  terminal.line(wanted.length === 0 ? "no job runs" : `wanted: ${wanted.join(", ")}`);
  if (fleets.length === 0) terminal.line("no fleets yet: make an InferenceFleet");
  for (const fleet of fleets) print(fleet, context);
}

export async function scaleFleet(
  name: string,
  count: string,
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  const replicas = Number(count);
  if (!Number.isSafeInteger(replicas) || replicas < 0 || count.trim() === "")
    throw badInput([{ path: "<n>", reason: `must be a whole number of at least 0, not "${count}"` }]);
  await using client = connect(flags, context);
  const { fleet } = await client.scaleFleet({ name, replicas });
  if (fleet === undefined) return;
  if (flags.json === true) return context.terminal.json(toJson(FleetSchema, fleet));
  context.terminal.line(
    `${fleet.name}: ${replicas} wanted, ${servingOf(fleet)} serving now; see \`whet fleet status\``,
  );
}

function connect(flags: CommonOptions, { environment }: CommandContext): RpcClient<typeof FleetViewService> {
  const address = controllerAddress(flags.data, environment);
  return clientOf(FleetViewService, { role: "controller", address }, environment);
}

function servingOf({ replicas }: Fleet): number {
  return replicas.filter(({ state }) => state === ReplicaState.SERVING).length;
}

function print(fleet: Fleet, { terminal }: CommandContext): void {
  const wanted = fleet.wanted === undefined ? "" : ` of ${fleet.wanted} wanted`;
  terminal.line(`${fleet.name}: ${servingOf(fleet)} serving${wanted}`);
  const header = ["ENGINE", "STATE", "POLICY", "CALLS", "REASON"];
  for (const line of formatTable(header, fleet.replicas.map(rowOf))) terminal.line(line);
  for (const { type, status, reason, message } of fleet.conditions)
    if (status !== (type === "Ready" ? "True" : "False")) terminal.line(`${type}=${status} ${reason}: ${message}`);
}

function rowOf({ name, state, policy, policyVersion, inFlight, reason }: FleetReplica): string[] {
  const served = policyVersion === undefined ? "–" : policyLabel(policy, policyVersion);
  return [name, nameOf(state), served, String(inFlight), reason];
}

/** SERVING → "Serving", as `kubectl` shows it. */
function nameOf(state: ReplicaState): string {
  const name = ReplicaState[state];
  return name.charAt(0) + name.slice(1).toLowerCase();
}
