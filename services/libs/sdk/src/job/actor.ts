// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";

import { BaseEnv } from "../base-env.ts";
import type { EnvironmentLike, RegisteredEnvironment } from "../define.ts";
import { type ActorLike, asRegisteredActor, asRegisteredEnvironment } from "../read-module.ts";
import type { Info } from "../types.ts";
import type { RegisteredActor } from "../workflow/define-workflow.ts";
import type { JobDocument } from "./document.ts";
import { readOrThrow } from "./read-settings.ts";

/** A class, a registered value, or either of them (or the name of a built-in one) with its settings. */
export type Use<Like> = Like | (Settings & { readonly kind: Like | string });

/** What a job file has beside `kind` under `agent` or `environment`. */
interface Settings {
  readonly args?: Info | undefined;
  /** Of a rollout: what holds where its own client asks for other sampling than the job's. Default: "context". */
  readonly clientSampling?: "context" | "override" | "refuse" | undefined;
  /** Of an environment: the pool that hosts it. */
  readonly pool?: string | undefined;
}

export interface Used<Registered> {
  /** As in a job file. */
  readonly document: JobDocument;
  /** What the module defines. Undefined: a built-in one, by name. */
  readonly registered: Registered | undefined;
}

/** Who plays. `form` is the option's name. @throws ConfigError when the value is of another form. */
export function useActor(given: Use<ActorLike>, form: "agent" | "workflow" | "rollout"): Used<RegisteredActor> {
  const used = resolveUse(given, { path: form, message: "AgentSpec", register: asRegisteredActor });
  const found = used.registered?.form ?? form;
  if (found === form) return used;
  throw refused(form, `"${String(used.document["kind"])}" is ${article(found)}: give it as \`${found}\``);
}

/** Whether the value can play in this form, or is the name of one who may. Otherwise `useActor` says what it is. */
export function isPlayer(given: unknown, form: "agent" | "workflow" | "rollout"): boolean {
  try {
    useActor(given as Use<ActorLike>, form);
    return true;
  } catch {
    return false;
  }
}

export function useEnvironment(given: Use<EnvironmentLike>): Used<RegisteredEnvironment> {
  const used = resolveUse(given, { path: "environment", message: "EnvironmentSpec", register: asEnvironment });
  const found = used.registered?.form ?? "environment";
  if (found === "environment") return used;
  throw refused("environment", `"${String(used.document["kind"])}" is ${article(found)}`);
}

function asEnvironment(given: EnvironmentLike): RegisteredEnvironment {
  const isOther = typeof given === "function" && !(given.prototype instanceof BaseEnv);
  if (isOther) throw refused("environment", `${given.name} must extend BaseEnv`);
  return asRegisteredEnvironment(given);
}

function resolveUse<Like, Registered extends { readonly kind: string }>(
  given: Use<Like>,
  { path, message, register }: { path: string; message: string; register: (like: Like) => Registered },
): Used<Registered> {
  const { kind, ...settings } = isPair(given) ? given : { kind: given };
  const describe = (name: string): JobDocument => readOrThrow(message, { kind: name, ...settings }, path);
  if (typeof kind === "string") return { document: describe(kind), registered: undefined };
  if (typeof kind !== "function" && !isRegistered(kind))
    throw refused(path, "must be a class, a registered value or a kind");
  if (typeof kind === "function" && !isClass(kind))
    throw refused(
      path,
      `${kind.name || "the function"} is a function: make a rollout of it, \`rollout: defineRollout({ kind: "mine", run: ${kind.name || "play"} })\``,
    );
  const registered = register(kind);
  return { document: describe(registered.kind), registered };
}

function isClass(given: object): boolean {
  return Function.prototype.toString.call(given).startsWith("class");
}

function isPair<Like>(given: Use<Like>): given is Settings & { readonly kind: Like | string } {
  return typeof given === "object" && given !== null && "kind" in given && !isRegistered(given);
}

function isRegistered(value: unknown): boolean {
  return typeof value === "object" && value !== null && "form" in value && "create" in value;
}

function article(form: string): string {
  return /^[aeiou]/.test(form) ? `an ${form}` : `a ${form}`;
}

function refused(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }]);
}
