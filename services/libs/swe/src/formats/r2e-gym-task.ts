// SPDX-License-Identifier: Apache-2.0
import type { InstanceVerdict, RepositoryTask } from "../instance/repository-task.ts";
import { unresolved } from "../verdict.ts";
import type { EvalScript } from "./eval-script.ts";
import { issueOf, type R2eGymRow } from "./r2e-gym-instance.ts";
import { parseR2eLog, r2eReportOf, summariesIn } from "./r2e-gym-verdict.ts";
import type { TestLog } from "./swe-bench-verdict.ts";

/** What R2E-Gym's images hold beside the repository, and an agent should not see. */
const HIDDEN = [
  "run_tests.sh",
  "r2e_tests",
  "/r2e_tests",
  "syn_issue.json",
  "expected_test_output.json",
  "execution_result.json",
  "parsed_commit.json",
  "modified_files.json",
  "modified_entities.json",
];

/** The tests lie beside the repository in the images, and are run from within. */
const SCRIPT: EvalScript = {
  before: "[ -e r2e_tests ] || ln -s /r2e_tests r2e_tests",
  tests: "bash run_tests.sh",
};

export function r2eGymTask(row: R2eGymRow): RepositoryTask {
  const expected = new Map(Object.entries(row.expected_output_json));
  const judge = ({ output }: TestLog): InstanceVerdict => {
    if (summariesIn(output) > 1) return unresolved("the tests printed more than one summary");
    const { resolved, different } = r2eReportOf(parseR2eLog(output), expected);
    const right = Math.max(0, expected.size - different.length) / expected.size;
    const details = { different: different.length };
    return { resolved, failToPass: right, passToPass: 1, dense: right, details };
  };
  return {
    id: row.commit_hash,
    statement: issueOf(row),
    image: row.docker_image,
    hidden: HIDDEN,
    tests: ["run_tests.sh", "r2e_tests"],
    repaired: [],
    script: SCRIPT,
    judge,
  };
}
