// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { AdvantageEstimator, type ExternalModel, type Role } from "@whetstone/proto/types/v1/types";
import type { Findings } from "./violation.ts";

/** Role names are parts of metric names. */
const ROLE = /^[A-Za-z0-9][-_.A-Za-z0-9]{0,63}$/;
const MAX_ROLES = 16;
/** A job must not be able to read any other secret of the orchestrator. */
const KEY_VARIABLE = /^[A-Z][A-Z0-9_]*_API_KEY$/;

export function checkRoles(found: Findings, spec: JobSpec): void {
  const isSft = spec.algorithm?.kind.case === "sft";
  const names = new Set<string>();
  found.check("roles", spec.roles.length <= MAX_ROLES, `must be at most ${MAX_ROLES}, are ${spec.roles.length}`);
  spec.roles.forEach((role, i) => {
    const path = `roles[${i}]`;
    found.check(`${path}.name`, ROLE.test(role.name), "must be 1 to 64 characters: letters, digits, - _ .");
    found.check(`${path}.name`, !names.has(role.name), `"${role.name}" is taken by another role`);
    names.add(role.name);
    checkAdvantage(found, `${path}.advantage`, role, isSft);
    if (role.model) checkModel(found, `${path}.model`, role.model);
  });
}

/** I11: an estimator that nothing would use is refused. */
function checkAdvantage(found: Findings, path: string, role: Role, isSft: boolean): void {
  const isSet = role.advantage !== AdvantageEstimator.UNSPECIFIED;
  const isTrained = !role.frozen && !role.model;
  found.check(path, !(isSet && isSft), "SFT has no advantages");
  found.check(path, !isSet || isTrained, "a role that is frozen or has a model of its own has no advantages");
}

function checkModel(found: Findings, path: string, model: ExternalModel): void {
  found.check(`${path}.baseUrl`, isHttpUrl(model.baseUrl), `must be an http or https URL, got "${model.baseUrl}"`);
  found.check(`${path}.baseUrl`, !/\/v1\/?$/.test(model.baseUrl), 'must not end in "/v1": that is added');
  found.check(`${path}.model`, model.model !== "", "is required: the model's name there");
  const isVariable = model.apiKeyEnv === "" || KEY_VARIABLE.test(model.apiKeyEnv);
  found.check(`${path}.apiKeyEnv`, isVariable, "must name an environment variable like JUDGE_API_KEY, not be a key");
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
