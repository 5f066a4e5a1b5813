// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import { checkRules } from "@whetstone/contract/check";
import { type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AdvantageEstimator, PolicyLoss } from "@whetstone/proto/types/v1/types";
import { compileJob, isDemonstrated, isHeldOut } from "../compiled-job.ts";
import { checkManifestSize } from "./manifest-size.ts";
import { checkSeedsPlayed } from "./validate-dataset.ts";
import { Findings, type Violation } from "./violation.ts";
import { checkMessage } from "./validate-message.ts";

export type { Violation };

/** Free-form arguments go with every task. */
const MAX_ARGS_BYTES = 131_072;

/**
 * Everything about a job that can be judged from its text alone (I11): the rules of the contract, and here what they cannot
 * say. What needs the world (model folder, environment, dataset file) is checked by `external-checks.ts`.
 */
export function validateJob(spec: JobSpec): Violation[] {
  const found = new Findings(checkRules(JobSpecSchema, spec));
  checkArgs(found, "agent.args", spec.agent?.args);
  checkArgs(found, "environment.args", spec.environment?.args);
  if (isDemonstrated(spec)) checkDemonstratedRoles(found, spec);
  if (spec.validation) checkSeedsPlayed(found, spec.validation);
  checkMessage(found, JobSpecSchema, spec);
  if (found.violations.length === 0 && spec.loop?.steps) checkManifestSize(found, compileJob(spec));
  return found.violations;
}

/** Whether anything of the job is sampled: all but SFT and DPO whose validation nobody plays. */
export function needsAgent(spec: JobSpec): boolean {
  const trains = (spec.loop?.steps ?? 0) > 0 && !isDemonstrated(spec);
  return trains || (spec.validation !== undefined && !isHeldOut(spec));
}

function checkArgs(found: Findings, path: string, args: JsonObject | undefined): void {
  const bytes = args ? Buffer.byteLength(JSON.stringify(args)) : 0;
  found.check(path, bytes <= MAX_ARGS_BYTES, `must be at most ${MAX_ARGS_BYTES} bytes as JSON, is ${bytes}`);
}

function checkDemonstratedRoles(found: Findings, { roles, algorithm }: JobSpec): void {
  const name = algorithm?.kind.case?.toUpperCase();
  roles.forEach(({ advantage, loss }, i) => {
    found.check(`roles[${i}].advantage`, advantage === AdvantageEstimator.UNSPECIFIED, `${name} has no advantages`);
    found.check(`roles[${i}].loss`, loss === PolicyLoss.UNSPECIFIED, `${name} has no policy loss`);
  });
}
