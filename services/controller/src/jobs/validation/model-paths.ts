// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";

/** The folders of models that a job names, by field: its own, and those of its reference and its critic that are others. */
export function modelPaths({ model, algorithm }: JobSpec): Record<string, string | undefined> {
  return { "model.path": model?.path ?? "", ...otherModels(algorithm) };
}

function otherModels(algorithm: JobSpec["algorithm"]): Record<string, string | undefined> {
  switch (algorithm?.kind.case) {
    case "policyGradient": {
      const { kl, critic } = algorithm.kind.value;
      return {
        "algorithm.policyGradient.kl.model": kl?.model,
        "algorithm.policyGradient.critic.model": critic?.model,
      };
    }
    case "dpo":
      return { "algorithm.dpo.reference": algorithm.kind.value.reference };
    default:
      return {};
  }
}
