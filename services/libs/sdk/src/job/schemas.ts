// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

import { durationMs, durationText } from "./duration.ts";
import { enumName } from "./document.ts";
import type { LimitSettings, LoopSettings, RoleSettings, SamplingSettings, ValidationSettings } from "./settings.ts";

// From settings to their protobuf JSON form. Unknown names are refused by path; ranges are the controller's to judge.

const whole = z.int().min(0).optional();
const number = z.number().optional();
const flag = z.boolean().optional();

export const duration = z
  .union([z.number(), z.string()])
  .refine((value) => durationMs(value) !== undefined, 'must be milliseconds, or a text like "250ms", "30s", "20m"')
  .transform(durationText);

export const sampling = z.strictObject({ temperature: number, topP: number, topK: whole, maxTokens: whole });

export const limits = z.strictObject({
  maxSteps: whole,
  maxPromptTokens: whole,
  maxResponseTokens: whole,
  enforcePromptLimitEachStep: flag,
  episodeTimeout: duration.optional(),
  retryLimit: whole,
  gamma: number,
  overlongFilter: flag,
  accumulateThinking: flag,
  disableThinking: flag,
  phaseTimeouts: z
    .strictObject({
      reset: duration.optional(),
      model: duration.optional(),
      step: duration.optional(),
      reward: duration.optional(),
      close: duration.optional(),
    })
    .optional(),
});

const groupPolicy = z
  .union([
    z.enum(["complete", "drop"]).transform((name) => ({ [name]: {} })),
    z.strictObject({ partial: z.strictObject({ minSize: z.int().min(1) }) }),
  ])
  .optional();

export const loop = z.strictObject({
  steps: z.int().min(0),
  batchGroups: whole,
  maxPolicyLag: whole,
  checkpointEvery: whole,
  checkpointsKept: whole,
  groupPolicy,
  deadlinePolicy: z
    .enum(["void", "score", "mask"])
    .transform((name) => enumName(name, "DEADLINE_POLICY"))
    .optional(),
  onMismatch: z
    .enum(["warn", "stop"])
    .transform((name) => enumName(name, "MISMATCH_POLICY"))
    .optional(),
  mismatchBound: z.number().positive().optional(),
});

export const role = z.strictObject({
  name: z.string().min(1),
  advantage: z
    .enum(["grpo", "reinforce", "rloo", "reinforce++-baseline"])
    .transform((name) => enumName(name, "ADVANTAGE_ESTIMATOR"))
    .optional(),
  frozen: flag,
  model: z.strictObject({ baseUrl: z.string(), model: z.string(), apiKeyEnv: z.string().optional() }).optional(),
});

/** What a validation has beside its dataset. */
export const validationShape = {
  everySteps: whole,
  atStart: flag,
  atEnd: flag,
  variants: z
    .array(z.strictObject({ name: z.string().min(1), sampling: sampling.optional(), attempts: whole }))
    .optional(),
};

/** Fails to compile when a schema and its interface have different names or types. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
type Loose<T> = T extends readonly (infer E)[] ? Loose<E>[] : T extends object ? { [K in keyof T]: Loose<T[K]> } : T;
type Matches<S extends z.ZodType, Settings> = Same<keyof z.input<S>, keyof Settings> &
  Same<Loose<z.input<S>>, Loose<{ -readonly [K in keyof Settings]: Settings[K] }>>;
const checked: [
  Matches<typeof sampling, SamplingSettings>,
  Matches<typeof limits, LimitSettings>,
  Matches<typeof loop, LoopSettings>,
  Matches<typeof role, RoleSettings>,
  Matches<z.ZodObject<typeof validationShape>, ValidationSettings>,
] = [true, true, true, true, true];
void checked;
