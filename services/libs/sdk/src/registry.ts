// SPDX-License-Identifier: Apache-2.0
import { ConfigError, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "./base-agent.ts";
import type { BaseEnv } from "./base-env.ts";
import type { Info } from "./types.ts";

/** Checks arguments from outside. @throws ConfigError with every violation, paths relative to the arguments ("size"). */
export type ParseArgs<Args> = (args: Info) => Args;

interface Definition<Args, Product> {
  /** The name that jobs use: "frozenlake". */
  readonly kind: string;
  /** One sentence. */
  readonly description: string;
  readonly parseArgs: ParseArgs<Args>;
  /** JSON Schema of the arguments. */
  readonly argsSchema: Info;
  readonly create: (args: Args) => Product;
}

export interface EnvironmentDefinition<Args = unknown> extends Definition<Args, BaseEnv> {
  /** The same seed and arguments give the same episode on every machine. */
  readonly seedable: boolean;
}

export type AgentDefinition<Args = unknown> = Definition<Args, BaseAgent>;

/** A definition with its argument type closed over, so that definitions of all kinds fit one registry. */
export interface Registered<Product> {
  readonly kind: string;
  readonly description: string;
  readonly argsSchema: Info;
  /** @throws ConfigError whose paths start with "args." */
  readonly create: (args: Info) => Product;
}

export interface RegisteredEnvironment extends Registered<BaseEnv> {
  readonly seedable: boolean;
}
export type RegisteredAgent = Registered<BaseAgent>;

export function defineEnvironment<Args>(definition: EnvironmentDefinition<Args>): RegisteredEnvironment {
  return { ...close(definition), seedable: definition.seedable };
}

export function defineAgent<Args>(definition: AgentDefinition<Args>): RegisteredAgent {
  return close(definition);
}

function close<Args, Product>(definition: Definition<Args, Product>): Registered<Product> {
  const { kind, description, argsSchema } = definition;
  return { kind, description, argsSchema, create: (args) => definition.create(parse(definition, args)) };
}

function parse<Args>(definition: Definition<Args, unknown>, args: Info): Args {
  try {
    return definition.parseArgs(args);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const violations = error.violations.map(({ path, reason }) => ({ path: path ? `args.${path}` : "args", reason }));
    throw new ConfigError(violations, { code: "TASK_INVALID", cause: error });
  }
}

/** A registry is a value: whoever needs one is given it. */
export interface Registry<T> {
  readonly kinds: readonly T[];
  /** @throws ConfigError TASK_INVALID naming the known kinds. */
  get(kind: string): T;
}

export function createRegistry<T extends { readonly kind: string }>(what: string, entries: readonly T[]): Registry<T> {
  const byKind = new Map(entries.map((entry) => [entry.kind, entry]));
  if (byKind.size !== entries.length) throw new WhetstoneError("ALREADY_EXISTS", `two ${what}s have the same kind`);
  return {
    kinds: entries,
    get(kind) {
      const entry = byKind.get(kind);
      if (entry !== undefined) return entry;
      const reason = `unknown ${what} "${kind}"; known: ${[...byKind.keys()].join(", ")}`;
      throw new ConfigError([{ path: "kind", reason }], { code: "TASK_INVALID" });
    },
  };
}
