// SPDX-License-Identifier: Apache-2.0
import { ConfigError, type Violation } from "@whetstone/core";

import type { EnvironmentLike, RegisteredEnvironment } from "../define.ts";
import type { ActorLike } from "../read-module.ts";
import type { RegisteredActor } from "../workflow/define-workflow.ts";
import { isPlayer, type Use, useActor, type Used, useEnvironment } from "./actor.ts";
import type { AlgorithmSettings } from "./algorithm.ts";
import { datasetDocument, type DatasetSource, isDataset } from "./dataset.ts";
import { type JobDocument, present } from "./document.ts";
import type { JobSettings, LoraSettings, ModuleSandboxSettings, ValidationSettings } from "./generated/settings.ts";
import { readSettings } from "./read-settings.ts";

/** A dataset alone, or with when and how it is played. */
export type Validation = DatasetSource | (ValidationSettings & { readonly dataset: DatasetSource });

/** All that a user says of a job. */
export interface JobOptions extends JobSettings {
  /** A DNS label of at most 52 characters; the same name is the same job. Default: made from the file's name and its content. */
  readonly name?: string | undefined;
  /** A folder in Hugging Face layout, meant from the module's own folder. Default: the runtime's own model. */
  readonly model?: { readonly path: string; readonly lora?: LoraSettings | undefined } | undefined;
  /** Who plays: one of `agent`, `workflow` and `rollout`. None with `sft`, `dpo` and `ipo`, whose validation is evaluated by the trainer then. */
  readonly agent?: Use<ActorLike> | undefined;
  readonly workflow?: Use<ActorLike> | undefined;
  readonly rollout?: Use<ActorLike> | undefined;
  /** Required with `agent`. */
  readonly environment?: Use<EnvironmentLike> | undefined;
  /** Required unless `loop.steps` is 0. */
  readonly train?: DatasetSource | undefined;
  readonly validation?: Validation | undefined;
  /** `grpo({…})`, `dpo({…})` or `sft({…})`. Required unless `loop.steps` is 0. */
  readonly algorithm?: AlgorithmSettings | undefined;
  /** What keeps this module's code from the machine that plays it. Default: a sandbox from which it reaches the gateway alone. */
  readonly sandbox?: ModuleSandboxSettings | undefined;
}

/** A checked job. Datasets are opened by `document`, not before: the module is also loaded where episodes are played. */
export interface JobDefinition {
  readonly form: "job";
  readonly name: string | undefined;
  /** What the module must define for it. */
  readonly actors: readonly RegisteredActor[];
  readonly environments: readonly RegisteredEnvironment[];
  /** What a YAML job file holds. @throws ConfigError when a dataset cannot be named. */
  document(): Promise<JobDocument>;
}

const FORMS = ["agent", "workflow", "rollout"] as const;

/**
 * Defines a job in code, for `whet train job.ts`: `export default defineJob({ agent: MyAgent, environment: MyEnv, … })`.
 * @throws ConfigError with every unknown or wrong setting by path: "loop.batchGroups".
 */
export function defineJob(options: JobOptions): JobDefinition {
  const { agent: _a, workflow: _w, rollout: _r, environment: _e, train, validation: _v, ...others } = options;
  const { algorithm, sandbox = {}, ...plain } = others;
  const settings = readSettings("JobSpec", plain, { isCode: true, isPart: true });
  const sandboxed = readSettings("ModuleSandbox", sandbox, { path: "sandbox", isCode: true });
  const violations = [
    ...settings.violations,
    ...sandboxed.violations,
    ...onePlayer(options),
    ...madeAlgorithm(algorithm),
  ];
  if ((plain as { loop?: unknown }).loop === undefined) violations.push({ path: "loop", reason: "is required" });
  if (violations.length > 0) throw new ConfigError(violations);
  const form = FORMS.find((name) => options[name] !== undefined);
  const actor = form && useActor(options[form] as Use<ActorLike>, form);
  const environment = options.environment === undefined ? undefined : useEnvironment(options.environment);
  const validation = readValidation(options.validation);
  const document = async (): Promise<JobDocument> =>
    clean({
      ...settings.json,
      agent: actor?.document,
      environment: environment?.document,
      train: train === undefined ? undefined : await datasetDocument(train, "train"),
      validation: await validation?.(),
      algorithm: algorithm?.document,
      module: options.sandbox === undefined ? undefined : { sandbox: sandboxed.json },
    });
  return { form: "job", name: options.name, actors: defined(actor), environments: defined(environment), document };
}

function onePlayer(options: JobOptions): Violation[] {
  const [first, second] = FORMS.filter((name) => options[name] !== undefined);
  const found: Violation[] = [];
  if (second !== undefined) found.push({ path: second, reason: `the job has an ${first} already` });
  if (first === "agent" && isPlayer(options.agent, "agent") && options.environment === undefined)
    found.push({ path: "environment", reason: "is required where an agent plays" });
  return found;
}

function madeAlgorithm(algorithm: AlgorithmSettings | undefined): Violation[] {
  const isMade = algorithm === undefined || (algorithm as { form?: unknown } | null)?.form === "algorithm";
  return isMade ? [] : [{ path: "algorithm", reason: "must be made by grpo({…}), dpo({…}) or sft({…})" }];
}

/** Checked now, its dataset opened later. */
function readValidation(validation: Validation | undefined): (() => Promise<JobDocument>) | undefined {
  if (validation === undefined) return undefined;
  if (!hasDataset(validation)) return async () => ({ dataset: await datasetDocument(validation, "validation") });
  const { dataset, ...settings } = validation;
  const { json, violations } = readSettings("Validation", settings, { path: "validation", isCode: true, isPart: true });
  if (violations.length > 0) throw new ConfigError(violations);
  return async () => ({ dataset: await datasetDocument(dataset, "validation.dataset"), ...json });
}

function hasDataset(validation: Validation): validation is ValidationSettings & { readonly dataset: DatasetSource } {
  return typeof validation === "object" && "dataset" in validation && !isDataset(validation);
}

function defined<R>(used: Used<R> | undefined): R[] {
  return used?.registered === undefined ? [] : [used.registered];
}

/** Without undefined fields, at every depth: the document is JSON. */
function clean(value: JobDocument): JobDocument {
  return present(JSON.parse(JSON.stringify(value)) as JobDocument) ?? {};
}
