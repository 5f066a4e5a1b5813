// SPDX-License-Identifier: Apache-2.0
import type { BundleStore } from "@whetstone/messaging";
import { codeFault, type ModuleCode } from "@whetstone/modules/code";
import type { SubmitJobRequest } from "@whetstone/proto/jobs/v1/jobs";
import type { Violation } from "../validation/validate-job.ts";

export type Intake = { readonly module: ModuleCode | undefined } | { readonly violations: readonly Violation[] };

/** The job's code: what was sent with it, or what the store has under its digest. */
export async function takeModule(request: SubmitJobRequest, bundles: BundleStore): Promise<Intake> {
  const { spec, moduleCode } = request;
  const digest = spec?.module?.digest;
  if (digest === undefined) {
    const reason = "is required where code is sent: the digest of the code";
    return moduleCode.length === 0 ? { module: undefined } : { violations: [{ path: "module.digest", reason }] };
  }
  if (moduleCode.length > 0) {
    const reason = codeFault(digest, moduleCode);
    if (reason !== undefined) return { violations: [{ path: "module.digest", reason }] };
    return { module: { digest, code: moduleCode } };
  }
  const code = await bundles.get(digest);
  if (code !== undefined) return { module: { digest, code } };
  const reason = `module ${digest} is not in the store: send its code with the job`;
  return { violations: [{ path: "module.digest", reason }] };
}
