// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { BaseAgent } from "./base-agent.ts";
import { BaseEnv } from "./base-env.ts";
import {
  type ClassOf,
  defineAgent,
  defineEnvironment,
  type EnvironmentClass,
  type EnvironmentLike,
  type Form,
  type RegisteredAgent,
  type RegisteredEnvironment,
} from "./define.ts";
import type { Info } from "./types.ts";
import { defineWorkflow, type RegisteredActor, type RegisteredWorkflow } from "./workflow/define-workflow.ts";
import { Workflow } from "./workflow/workflow.ts";

export type AgentClass = ClassOf<BaseAgent>;
export type WorkflowClass = ClassOf<Workflow>;
/** What `defineJob` takes where it names who plays. */
export type ActorLike = RegisteredActor | AgentClass | WorkflowClass;

/** What a module of user code offers. */
export interface ModuleContents {
  readonly actors: RegisteredActor[];
  readonly environments: RegisteredEnvironment[];
}

/** A class is defined once, however often and under whatever names it is exported. */
const definedClasses = new WeakMap<object, RegisteredActor | RegisteredEnvironment>();

export function asRegisteredAgent(given: RegisteredAgent | AgentClass): RegisteredAgent {
  return typeof given === "function"
    ? define(given, (kind, create) => defineAgent({ kind, create: create<BaseAgent> }))
    : given;
}

export function asRegisteredWorkflow(given: RegisteredWorkflow | WorkflowClass): RegisteredWorkflow {
  return typeof given === "function"
    ? define(given, (kind, create) => defineWorkflow({ kind, create: create<Workflow> }))
    : given;
}

export function asRegisteredEnvironment(given: EnvironmentLike): RegisteredEnvironment {
  return typeof given === "function"
    ? define(given, (kind, create) => defineEnvironment({ kind, create: create<BaseEnv> }))
    : given;
}

/** @throws WhetstoneError INVALID_ARGUMENT when a class is neither an agent nor a workflow. */
export function asRegisteredActor(given: ActorLike): RegisteredActor {
  if (typeof given !== "function") return given;
  if (extendsClass(given, BaseAgent)) return asRegisteredAgent(given as AgentClass);
  if (extendsClass(given, Workflow)) return asRegisteredWorkflow(given as WorkflowClass);
  throw new WhetstoneError("INVALID_ARGUMENT", `${nameOf(given)} must extend BaseAgent or Workflow`);
}

export function isEnvironmentClass(given: object): given is EnvironmentClass {
  return extendsClass(given, BaseEnv);
}

type Create = <T>(args: unknown) => T;

function define<R extends RegisteredActor | RegisteredEnvironment>(
  given: ClassOf<unknown>,
  make: (kind: string, create: Create) => R,
): R {
  const known = definedClasses.get(given);
  if (known !== undefined) return known as R;
  const made = make(nameOf(given), <T>(args: unknown) => new given(args as never) as T);
  definedClasses.set(given, made);
  return made;
}

function nameOf(given: { readonly name: string }): string {
  if (given.name === "") throw new WhetstoneError("INVALID_ARGUMENT", "a class without a name needs a definition");
  return given.name;
}

/**
 * Finds what a module defines: values of `define…`, classes that extend BaseAgent, BaseEnv or Workflow, and what an exported
 * job or trainer names in its `actors` and `environments`.
 * @throws WhetstoneError ALREADY_EXISTS when two different things have one kind.
 */
export function readModule(exports: Info): ModuleContents {
  const found = new Set<RegisteredActor | RegisteredEnvironment>();
  for (const value of Object.values(exports)) collect(value, found);
  const contents: ModuleContents = { actors: [], environments: [] };
  for (const entry of found) {
    if (entry.form === "environment") contents.environments.push(entry);
    else contents.actors.push(entry);
  }
  refuseTwins("actors", contents.actors);
  refuseTwins("environments", contents.environments);
  return contents;
}

function collect(value: unknown, found: Set<RegisteredActor | RegisteredEnvironment>): void {
  if (typeof value === "function") {
    const entry = ofClass(value);
    if (entry) found.add(entry);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (isRegistered(value)) found.add(value);
  else for (const entry of listed(value)) collect(entry, found);
}

function ofClass(value: object): RegisteredActor | RegisteredEnvironment | undefined {
  if (extendsClass(value, BaseAgent) || extendsClass(value, Workflow)) return asRegisteredActor(value as ActorLike);
  return extendsClass(value, BaseEnv) ? asRegisteredEnvironment(value as EnvironmentClass) : undefined;
}

function extendsClass(value: object, base: { readonly prototype: object }): boolean {
  const { prototype } = value as { prototype?: unknown };
  return (
    typeof prototype === "object" &&
    prototype !== null &&
    Object.prototype.isPrototypeOf.call(base.prototype, prototype)
  );
}

/** The `actors` and `environments` of a job or a trainer. */
function listed(value: object): unknown[] {
  const { actors, environments } = value as { actors?: unknown; environments?: unknown };
  return [actors, environments].filter(Array.isArray).flat() as unknown[];
}

const FORMS: ReadonlySet<unknown> = new Set<Form>(["agent", "workflow", "rollout", "environment"]);

function isRegistered(value: object): value is RegisteredActor | RegisteredEnvironment {
  const { form, kind, create } = value as { form?: unknown; kind?: unknown; create?: unknown };
  return FORMS.has(form) && typeof kind === "string" && typeof create === "function";
}

function refuseTwins(what: string, entries: readonly { readonly kind: string }[]): void {
  const seen = new Set<string>();
  for (const { kind } of entries) {
    if (seen.has(kind)) throw new WhetstoneError("ALREADY_EXISTS", `the module exports two ${what} of kind "${kind}"`);
    seen.add(kind);
  }
}
