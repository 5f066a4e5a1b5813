// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { ModuleCode } from "@whetstone/modules/code";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { AgentForm, type AgentKind, type RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import type { RpcClient } from "@whetstone/rpc";
import type { Violation } from "./validate-job.ts";
import { checkImages } from "./image-check.ts";
import { checkPlayed } from "./validate-players.ts";

/** A module may take a while to load on a busy machine. */
const DESCRIBE_MS = 60_000;

/** The kind must be the module's or built in, and an agent needs an environment. @param modelPath  a folder, artifacts resolved */
export async function checkAgent(
  spec: JobSpec,
  module: ModuleCode | undefined,
  { rollouts, modelPath }: { readonly rollouts: RpcClient<typeof RolloutService>; readonly modelPath: string },
): Promise<Violation[]> {
  const own = await ofModule(module, (sent) => describe(rollouts, sent));
  if ("violation" in own) return [own.violation];
  const kind = spec.agent?.kind ?? "";
  const known = [...own.kinds, ...(await describe(rollouts, undefined))];
  const found = known.find((described) => described.kind === kind);
  if (found === undefined) {
    const names = [...new Set(known.map((described) => described.kind))].join(", ");
    return [{ path: "agent.kind", reason: `unknown agent "${kind}"; known: ${names}`, curable: true }];
  }
  const faults = [
    ...checkPlayed(spec, found.form),
    ...argumentFaults(found, spec.agent?.args ?? {}),
    ...(await checkImages(spec, found, modelPath)),
  ];
  if (found.form !== AgentForm.AGENT || spec.environment?.kind) return faults;
  return [...faults, { path: "environment.kind", reason: `is required: the environment that agent "${kind}" acts in` }];
}

/** Unknown and missing keys, by the schema that the agent declares; its own parser judges the values, in the rehearsal. */
function argumentFaults({ argsSchemaJson }: AgentKind, args: object): Violation[] {
  const schema = (argsSchemaJson === "" ? {} : JSON.parse(argsSchemaJson)) as ObjectSchema;
  const known = Object.keys(schema.properties ?? {});
  const isClosed = schema.additionalProperties === false;
  const unknown = isClosed ? Object.keys(args).filter((name) => !known.includes(name)) : [];
  const missing = (schema.required ?? []).filter((name) => !(name in args));
  const told = known.length === 0 ? "it takes none" : `known are ${known.join(", ")}`;
  return [
    ...unknown.map((name) => ({ path: `agent.args.${name}`, reason: `unknown, ${told}` })),
    ...missing.map((name) => ({ path: `agent.args.${name}`, reason: "is required" })),
  ];
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly additionalProperties?: unknown;
  readonly required?: readonly string[];
}

async function describe(
  rollouts: RpcClient<typeof RolloutService>,
  module: ModuleCode | undefined,
): Promise<AgentKind[]> {
  return (await rollouts.describeAgents(module ? { module } : {}, { deadlineMs: DESCRIBE_MS })).kinds;
}

const WITHOUT =
  "backend: none would run the code without one, where it reads the service's keys and reaches its networks";

const MODULES_FAULT: ReadonlySet<string> = new Set([
  "TASK_INVALID",
  "MODULE_CRASHED",
  "MODULE_HUNG",
  "MODULE_TOO_LARGE",
]);

/** What a service says of a module; that it cannot be loaded is the module's fault, as the sandbox is the job's, anything else ours. */
export async function ofModule<Kind>(
  module: ModuleCode | undefined,
  look: (module: ModuleCode) => Promise<Kind[]>,
): Promise<{ kinds: Kind[] } | { violation: Violation }> {
  if (module === undefined) return { kinds: [] };
  try {
    return { kinds: await look(module) };
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (code === "FAILED_PRECONDITION")
      return { violation: { path: "module.sandbox", reason: `${message}; ${WITHOUT}` } };
    if (!MODULES_FAULT.has(code)) throw error;
    return { violation: { path: "module", reason: message } };
  }
}
