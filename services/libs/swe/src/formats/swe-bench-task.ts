// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { InstanceVerdict, RepositoryTask } from "../instance/repository-task.ts";
import { unresolved } from "../verdict.ts";
import { readEvalScript } from "./eval-script.ts";
import { infraFailureOf } from "./infra-failure.ts";
import { LOG_PARSERS } from "./log-parsers/registry.ts";
import { withoutContradictions } from "./log-parsers/without-contradictions.ts";
import { patchFiles } from "./patch-files.ts";
import { imageOf, parserNameOf, type SweBenchRow } from "./swe-bench-instance.ts";
import { reportOf, statusesOf, type TestLog } from "./swe-bench-verdict.ts";

/** @param row  has passed `checkSweBenchRow` */
export function sweBenchTask(row: SweBenchRow): RepositoryTask {
  const script = readEvalScript(row.eval_script);
  const parser = LOG_PARSERS.get(parserNameOf(row) ?? "");
  if (script === undefined || parser === undefined)
    throw new WhetstoneError("INVALID_ARGUMENT", `${row.instance_id} was not checked when it was read`);
  const expected = { failToPass: row.FAIL_TO_PASS, passToPass: row.PASS_TO_PASS, evalType: row.eval_type };
  const judge = (log: TestLog): InstanceVerdict => {
    const statuses = statusesOf(withoutContradictions(parser), log);
    const infraFailure = infraFailureOf(log.output)?.reason;
    const details = infraFailure === undefined ? {} : { infraFailure };
    if (statuses === undefined) return { ...unresolved("what the tests printed says nothing of them"), details };
    const { resolution, failToPass, passToPass } = reportOf(statuses, expected);
    const shares = { failToPass, passToPass, dense: failToPass * passToPass };
    return { resolved: resolution === "RESOLVED_FULL", ...shares, details: { resolution, ...details } };
  };
  return {
    id: row.instance_id,
    statement: row.problem_statement,
    image: imageOf(row),
    hidden: [],
    tests: patchFiles(row.test_patch),
    repaired: patchFiles(row.patch),
    script,
    judge,
  };
}
