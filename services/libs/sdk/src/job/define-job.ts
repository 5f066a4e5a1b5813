// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";

import type { ActorLike, EnvironmentLike } from "../read-module.ts";
import type { RegisteredActor, RegisteredEnvironment } from "../registry.ts";
import { isPlayer, type Use, useActor, type Used, useEnvironment } from "./actor.ts";
import type { AlgorithmSettings } from "./algorithm.ts";
import { datasetDocument, type DatasetSource, isDataset } from "./dataset.ts";
import { type JobDocument, present } from "./document.ts";
import type { Duration } from "./duration.ts";
import { duration, limits, loop, role, sampling, validationShape } from "./schemas.ts";
import type { LimitSettings, LoopSettings, RoleSettings, SamplingSettings, ValidationSettings } from "./settings.ts";

/** A dataset alone, or with when and how it is played. */
export type Validation = DatasetSource | (ValidationSettings & { readonly dataset: DatasetSource });

/** All that a user says of a job. */
export interface JobOptions {
  /** A DNS label of at most 52 characters; the same name is the same job. Default: made from the file's name and its content. */
  readonly name?: string | undefined;
  /** A folder in Hugging Face layout, meant from the module's own folder. Default: the runtime's own model. */
  readonly model?: { readonly path: string } | undefined;
  /** Who plays: one of `agent`, `workflow` and `rollout`; none with `sft`. */
  readonly agent?: Use<ActorLike> | undefined;
  readonly workflow?: Use<ActorLike> | undefined;
  readonly rollout?: Use<ActorLike> | undefined;
  /** Required with `agent`. */
  readonly environment?: Use<EnvironmentLike> | undefined;
  /** Required unless `loop.steps` is 0. */
  readonly train?: DatasetSource | undefined;
  readonly validation?: Validation | undefined;
  /** `grpo({…})` or `sft({…})`. Required unless `loop.steps` is 0. */
  readonly algorithm?: AlgorithmSettings | undefined;
  readonly loop: LoopSettings;
  readonly sampling?: SamplingSettings | undefined;
  readonly limits?: LimitSettings | undefined;
  /** Every random choice follows from it. Default 0. */
  readonly seed?: number | bigint | undefined;
  /** The whole job's deadline. Default: none. */
  readonly timeout?: Duration | undefined;
  /** Roles that are not as the job's default. */
  readonly roles?: readonly RoleSettings[] | undefined;
  /** Share of an orchestrator's slots beside other jobs, 1 to 1000. Default 1. */
  readonly weight?: number | undefined;
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

const given = z.unknown().optional();
const jobSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/, "must be a DNS label of at most 52 characters: a-z, 0-9 and inner -")
    .optional(),
  model: z.strictObject({ path: z.string().min(1) }).optional(),
  agent: given,
  workflow: given,
  rollout: given,
  environment: given,
  train: given,
  validation: given,
  algorithm: z
    .custom<AlgorithmSettings>((value) => (value as { form?: unknown } | null)?.form === "algorithm", {
      message: "must be made by grpo({…}) or sft({…})",
    })
    .optional(),
  loop,
  sampling: sampling.optional(),
  limits: limits.optional(),
  seed: z
    .union([z.int().min(0), z.bigint().min(0n)])
    .transform(String)
    .optional(),
  timeout: duration.optional(),
  roles: z.array(role).optional(),
  weight: z.int().min(1).max(1000).optional(),
});
const FORMS = ["agent", "workflow", "rollout"] as const;

/**
 * Defines a job in code, for `whet train job.ts`: `export default defineJob({ agent: MyAgent, environment: MyEnv, … })`.
 * @throws ConfigError with every unknown or wrong setting by path: "loop.batchGroups".
 */
export function defineJob(options: JobOptions): JobDefinition {
  const settings = parseOrThrow(jobSchema.superRefine(onePlayer), options, "");
  const form = FORMS.find((name) => options[name] !== undefined);
  const actor = form && useActor(options[form] as Use<ActorLike>, form);
  const environment = options.environment === undefined ? undefined : useEnvironment(options.environment);
  const { name, model, algorithm, loop, sampling, limits, seed, timeout, roles, weight } = settings;
  const validation = readValidation(options.validation);
  const document = async (): Promise<JobDocument> =>
    clean({
      name,
      model,
      agent: actor?.document,
      environment: environment?.document,
      train: options.train === undefined ? undefined : await datasetDocument(options.train, "train"),
      validation: await validation?.(),
      algorithm: algorithm?.document,
      ...{ loop, sampling, limits, seed, timeout, roles, weight },
    });
  return { form: "job", name, actors: defined(actor), environments: defined(environment), document };
}

function onePlayer(settings: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const players = FORMS.filter((name) => settings[name] !== undefined);
  const [first, second] = players;
  if (second !== undefined)
    context.addIssue({ code: "custom", path: [second], message: `the job has an ${first} already` });
  if (first === "agent" && isPlayer(settings["agent"], "agent") && settings["environment"] === undefined)
    context.addIssue({ code: "custom", path: ["environment"], message: "is required where an agent plays" });
}

const validationSchema = z.strictObject({ dataset: z.unknown(), ...validationShape });

/** Checked now, its dataset opened later. */
function readValidation(validation: Validation | undefined): (() => Promise<JobDocument>) | undefined {
  if (validation === undefined) return undefined;
  if (!hasDataset(validation)) return async () => ({ dataset: await datasetDocument(validation, "validation") });
  const { dataset, ...rest } = parseOrThrow(validationSchema, validation, "validation");
  return async () => ({ dataset: await datasetDocument(dataset as DatasetSource, "validation.dataset"), ...rest });
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
