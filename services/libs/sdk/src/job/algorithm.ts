// SPDX-License-Identifier: Apache-2.0
import { type JobDocument, present } from "./document.ts";
import { MESSAGES } from "./generated/fields.ts";
import type { DpoSettings, PolicyGradientSettings, SftSettings } from "./generated/settings.ts";
import { readOrThrow } from "./read-settings.ts";

type Kind = "policyGradient" | "sft" | "dpo";

/** What `policyGradient`, its recipes, `sft`, `dpo` and `ipo` give; `defineJob` takes it. */
export interface AlgorithmSettings {
  readonly form: "algorithm";
  readonly kind: Kind;
  /** `{ policyGradient: { groupSize: 8, … } }`, as in a job file. */
  readonly document: JobDocument;
}

/** An advantage estimator and a policy loss, by name. @throws ConfigError with paths such as "algorithm.policyGradient.groupSize". */
export function policyGradient(settings: PolicyGradientSettings): AlgorithmSettings {
  return algorithm("policyGradient", "PolicyGradient", settings);
}

/** @throws ConfigError with paths such as "algorithm.sft.batching.epochs". */
export function sft(settings: SftSettings = {}): AlgorithmSettings {
  return algorithm("sft", "Sft", settings);
}

/** Direct preference optimization. arXiv 2305.18290. @throws ConfigError with paths such as "algorithm.dpo.beta". */
export function dpo(settings: DpoSettings = {}): AlgorithmSettings {
  return algorithm("dpo", "Dpo", settings);
}

/** Identity preference optimization: DPO with a squared loss, which does not push a pair further apart than 1 / (2 beta). arXiv 2310.12036. */
export function ipo(settings: DpoSettings = {}): AlgorithmSettings {
  return dpo({ variant: "ipo", ...settings });
}

function algorithm(kind: Kind, message: string, settings: object): AlgorithmSettings {
  return { form: "algorithm", kind, document: { [kind]: readOrThrow(message, nested(settings), `algorithm.${kind}`) } };
}

/** The optimizer's and the batching's settings stand beside the algorithm's own, and in messages of their own in a job. */
function nested(settings: object): JobDocument {
  const own: JobDocument = { ...settings };
  const parts = Object.entries({ optimizer: "Optimizer", batching: "Batching" }).map(([part, message]) => {
    const names = Object.keys(MESSAGES[message]?.fields ?? {});
    const given = present(Object.fromEntries(names.map((name) => [name, own[name]])));
    for (const name of names) delete own[name];
    return [part, given];
  });
  return { ...own, ...present(Object.fromEntries(parts) as JobDocument) };
}
