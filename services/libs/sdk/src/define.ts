// SPDX-License-Identifier: Apache-2.0
import { ConfigError, parseOrThrow, WhetstoneError } from "@whetstone/core";
import { z } from "zod";
import type { BaseAgent } from "./base-agent.ts";
import type { BaseEnv } from "./base-env.ts";
import type { RolloutFunction, RolloutInput, RolloutResult } from "./rollout/rollout.ts";
import type { Info } from "./types.ts";

/** Checks arguments from outside. @throws ConfigError with every violation, paths relative to the arguments ("size"). */
export type ParseArgs<Args> = (args: Info) => Args;

interface Description<Args> {
  /** The name that jobs use: "frozenlake". */
  readonly kind: string;
  /** One sentence. */
  readonly description?: string;
  /** Default: takes them as they are. */
  readonly parseArgs?: ParseArgs<Args>;
  /** JSON Schema of the arguments. Default: any object. */
  readonly argsSchema?: Info;
}

export interface Definition<Args, Product> extends Description<Args> {
  readonly create: (args: Args) => Product;
}

export interface EnvironmentDefinition<Args = Info> extends Definition<Args, BaseEnv> {
  /** The same seed and arguments give the same episode on every machine. Default: false. */
  readonly seedable?: boolean;
}

export type AgentDefinition<Args = Info> = Definition<Args, BaseAgent>;

export interface RolloutDefinition<Args = Info> extends Description<Args> {
  readonly run: (input: RolloutInput<Args>) => RolloutResult | Promise<RolloutResult>;
}

/** Who a registered value is for: the three forms of actors (ARCHITECTURE.md, "Who plays an episode"), and environments. */
export type Form = "agent" | "workflow" | "rollout" | "environment";

/** A definition with its argument type closed over, so that definitions of all kinds fit one registry. */
export interface Registered<F extends Form, Product> {
  readonly form: F;
  readonly kind: string;
  readonly description: string;
  readonly argsSchema: Info;
  /** @throws ConfigError whose paths start with "args." */
  readonly create: (args: Info) => Product;
}

export interface RegisteredEnvironment extends Registered<"environment", BaseEnv> {
  readonly seedable: boolean;
}
/** A class takes the arguments of the job as its one parameter, or none, and has its name as kind. */
export type ClassOf<T> = new (args: never) => T;
export type EnvironmentClass = ClassOf<BaseEnv>;
export type EnvironmentLike = RegisteredEnvironment | EnvironmentClass;
export type RegisteredAgent = Registered<"agent", BaseAgent>;
/** `create` checks the arguments; the function that it gives ignores `input.args`. */
export type RegisteredRollout = Registered<"rollout", RolloutFunction>;

export function defineEnvironment<Args = Info>(definition: EnvironmentDefinition<Args>): RegisteredEnvironment {
  return { ...close("environment", definition), seedable: definition.seedable ?? false };
}

export function defineAgent<Args = Info>(definition: AgentDefinition<Args>): RegisteredAgent {
  return close("agent", definition);
}

/** Any async function that calls the model by itself: `defineRollout({ kind: "mine", run: async ({ task, baseUrl }) => 1 })`. */
export function defineRollout<Args = Info>(definition: RolloutDefinition<Args>): RegisteredRollout {
  const { run, ...description } = definition;
  const create =
    (args: Args): RolloutFunction =>
    (input) =>
      run({ ...input, args });
  return close("rollout", { ...description, create });
}

/** @throws WhetstoneError INVALID_ARGUMENT without a kind. */
export function close<F extends Form, Args, Product>(
  form: F,
  definition: Definition<Args, Product>,
): Registered<F, Product> {
  const { kind, description = "", argsSchema = { type: "object" } } = definition;
  if (kind === "") throw new WhetstoneError("INVALID_ARGUMENT", `an ${form} needs a kind: the name that jobs use`);
  const parseArgs = definition.parseArgs ?? parserOf<Args>(kind, definition.argsSchema);
  return { form, kind, description, argsSchema, create: (args) => definition.create(parse(parseArgs, args)) };
}

/** A definition that declares a schema and no parser is held to its schema. */
function parserOf<Args>(kind: string, argsSchema: Info | undefined): ParseArgs<Args> {
  if (argsSchema === undefined) return (args) => args as Args;
  const schema = readSchema(kind, argsSchema);
  return (args) => {
    parseOrThrow(schema, args, "");
    return args as Args;
  };
}

function readSchema(kind: string, argsSchema: Info): z.ZodType {
  try {
    return z.fromJSONSchema(argsSchema);
  } catch (error) {
    const reason = `argsSchema of "${kind}" cannot be checked: ${(error as Error).message}; give parseArgs beside it`;
    throw new WhetstoneError("INVALID_ARGUMENT", reason, { cause: error });
  }
}

function parse<Args>(parseArgs: ParseArgs<Args>, args: Info): Args {
  try {
    return parseArgs(args);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const violations = error.violations.map(({ path, reason }) => ({ path: path ? `args.${path}` : "args", reason }));
    throw new ConfigError(violations, { code: "TASK_INVALID", cause: error });
  }
}
