// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { type JobSpec, JobSpecSchema, type Loop } from "@whetstone/proto/jobs/v1/jobs";
import type { Module, PhaseTimeouts, RolloutLimits } from "@whetstone/proto/types/v1/types";
import { isJobId } from "@whetstone/core";
import { durationMs } from "../duration.ts";
import { Findings, type Violation } from "./violation.ts";
import { checkAlgorithm, checkGroupPolicy } from "./validate-algorithm.ts";
import { checkDataset, checkValidation } from "./validate-dataset.ts";
import { checkMessage } from "./validate-message.ts";
import { checkRoles } from "./validate-roles.ts";
import { checkSampling, checkTrainedSampling } from "./validate-sampling.ts";

export type { Violation };

const DIGEST = /^[0-9a-f]{64}$/;
/** Pools are objects of Kubernetes. */
const POOL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const DAY_MS = 86_400_000;
/** A batch is one message in the ledger: its manifest. */
const MAX_BATCH_EPISODES = 32_768;
/** Free-form arguments go with every task. */
const MAX_ARGS_BYTES = 131_072;

/**
 * Everything about a job that can be judged from its text alone (I11). What needs the world (model folder, environment,
 * dataset file) is checked by `external-checks.ts`.
 */
export function validateJob(spec: JobSpec): Violation[] {
  const found = new Findings();
  found.check("name", isJobId(spec.name), "must be a DNS label of at most 52 characters: a-z, 0-9 and inner dashes");
  found.check("model.path", Boolean(spec.model?.path), "is required: a folder in Hugging Face layout");
  checkLoop(found, spec.loop);
  if (spec.train) checkDataset(found, "train", spec.train);
  if (spec.algorithm) checkAlgorithm(found, spec.algorithm);
  if ((spec.loop?.steps ?? 0) > 0) checkTraining(found, spec);
  else
    found.check("validation", Boolean(spec.validation), "is required when loop.steps is 0: the job would do nothing");
  if (spec.validation) checkValidation(found, spec.validation);
  if (needsAgent(spec)) checkAgent(found, spec);
  checkSampling(found, "sampling", spec.sampling);
  checkLimits(found, spec.limits);
  checkRoles(found, spec);
  if (spec.module) checkModule(found, spec.module);
  found.range("weight", spec.weight, 1, 1000);
  checkTimeout(found, spec.timeout);
  found.exact("seed", spec.seed);
  checkMessage(found, JobSpecSchema, spec);
  return found.violations;
}

function checkTimeout(found: Findings, timeout: Duration | undefined): void {
  if (timeout) found.above("timeout", durationMs(timeout) / 1000, 0, (366 * DAY_MS) / 1000);
}

/** Whether anything of the job is sampled: all but SFT without validation. */
export function needsAgent(spec: JobSpec): boolean {
  const trains = (spec.loop?.steps ?? 0) > 0 && spec.algorithm?.kind.case !== "sft";
  return trains || spec.validation !== undefined;
}

function checkLoop(found: Findings, loop: Loop | undefined): void {
  found.check("loop", loop !== undefined, "is required");
  if (!loop) return;
  found.check("loop.steps", loop.steps !== undefined, "is required; 0 only evaluates");
  found.range("loop.steps", loop.steps, 0, 1_000_000);
  const fewest = loop.steps ? 1 : 0;
  found.range("loop.batchGroups", loop.batchGroups, fewest, MAX_BATCH_EPISODES);
  found.range("loop.maxPolicyLag", loop.maxPolicyLag, 0, 8);
  found.range("loop.checkpointEvery", loop.checkpointEvery, 1, 1_000_000);
  found.range("loop.checkpointsKept", loop.checkpointsKept, 1, 10_000);
  found.range("loop.mismatchBound", loop.mismatchBound, 1e-6, 1000);
}

function checkTraining(found: Findings, spec: JobSpec): void {
  found.check("train", spec.train !== undefined, "is required unless loop.steps is 0");
  const kind = spec.algorithm?.kind.case;
  found.check("algorithm", kind !== undefined, "is required unless loop.steps is 0: one of sft, grpo");
  checkBatch(found, spec);
  checkGroupPolicy(found, spec);
  if (kind === "grpo") checkTrainedSampling(found, spec.sampling);
}

function checkBatch(found: Findings, { loop, algorithm }: JobSpec): void {
  if (algorithm?.kind.case !== "grpo") return;
  const { groupSize } = algorithm.kind.value;
  const episodes = (loop?.batchGroups ?? 0) * groupSize;
  if (found.has("loop.batchGroups") || found.has("algorithm.grpo.groupSize")) return;
  const reason = `times loop.batchGroups must be at most ${MAX_BATCH_EPISODES} episodes a batch, is ${episodes}`;
  found.check("algorithm.grpo.groupSize", episodes <= MAX_BATCH_EPISODES, reason);
}

/** Built-in rollouts; a module's workflows and rollouts may do without an environment, too, which only looking tells. */
const OWN_RUN = new Set(["command", "http"]);

function checkAgent(found: Findings, spec: JobSpec): void {
  found.check("agent.kind", Boolean(spec.agent?.kind), "is required: the agent that acts");
  const mayDoWithout = Boolean(spec.module) || OWN_RUN.has(spec.agent?.kind ?? "");
  const named = Boolean(spec.environment?.kind) || (mayDoWithout && !spec.environment);
  found.check("environment.kind", named, "is required: the environment it acts in");
  const { pool } = spec.environment ?? {};
  found.check("environment.pool", pool === undefined || POOL.test(pool), "must be the name of a pool: a DNS label");
  checkArgs(found, "agent.args", spec.agent?.args);
  checkArgs(found, "environment.args", spec.environment?.args);
}

function checkArgs(found: Findings, path: string, args: JsonObject | undefined): void {
  const bytes = args ? Buffer.byteLength(JSON.stringify(args)) : 0;
  found.check(path, bytes <= MAX_ARGS_BYTES, `must be at most ${MAX_ARGS_BYTES} bytes as JSON, is ${bytes}`);
}

function checkLimits(found: Findings, limits: RolloutLimits | undefined): void {
  found.range("limits.maxSteps", limits?.maxSteps, 1, 100_000);
  found.range("limits.maxPromptTokens", limits?.maxPromptTokens, 1, 10_000_000);
  found.range("limits.maxResponseTokens", limits?.maxResponseTokens, 1, 10_000_000);
  found.range("limits.retryLimit", limits?.retryLimit, 0, 100);
  found.range("limits.gamma", limits?.gamma, 0, 1);
  if (limits?.episodeTimeout) found.milliseconds("limits.episodeTimeout", durationMs(limits.episodeTimeout), DAY_MS);
  if (limits?.phaseTimeouts) checkPhases(found, limits.phaseTimeouts);
}

function checkPhases(found: Findings, { reset, model, step, reward, close }: PhaseTimeouts): void {
  for (const [phase, timeout] of Object.entries({ reset, model, step, reward, close }))
    if (timeout) found.milliseconds(`limits.phaseTimeouts.${phase}`, durationMs(timeout), DAY_MS);
}

function checkModule(found: Findings, { digest, code }: Module): void {
  found.check("module.digest", DIGEST.test(digest), "must be a SHA-256 in lower-case hex");
  found.check("module.code", code.length === 0, "must be empty: the code travels beside the spec, as module_code");
}
