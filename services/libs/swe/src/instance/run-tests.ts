// SPDX-License-Identifier: Apache-2.0
import type { ExecResult } from "@whetstone/sandbox";
import { quoted } from "../agent-shell.ts";
import type { TestLog } from "../formats/swe-bench-verdict.ts";
import { unresolved } from "../verdict.ts";
import type { RepositorySandbox } from "./repository-sandbox.ts";
import type { InstanceVerdict, RepositoryTask } from "./repository-task.ts";

// G5: the tests' command is one of its own. What it prints and how it ends are the sandbox's word, so that no mark in the output
// counts, and what the preparation has started has ended. What it leaves are files, variables and the folder it was in.

const SCRIPT = ".whetstone-tests.sh";
const SHELL_STATE = ".whetstone-shell";
const KEEP = `{ export -p; declare -f; printf 'cd -- %q\\n' "$PWD"; }`;
const MAX_LOG_BYTES = 16 * 1024 * 1024;
const CONTINUES = "set -uxo pipefail\nexec 2>&1";

export async function runTests(
  shell: RepositorySandbox,
  task: Pick<RepositoryTask, "script" | "judge">,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<InstanceVerdict> {
  const at = (name: string): string => quoted(`${shell.sandbox.workspace}/${name}`);
  const run = async (script: string): Promise<ExecResult> => {
    await shell.sandbox.upload([{ path: SCRIPT, content: script }], signal);
    const options = { timeoutMs, maxOutputBytes: MAX_LOG_BYTES, signal };
    return shell.run(`exec bash ${at(SCRIPT)}`, options);
  };
  const { before, tests } = task.script;
  const prepared = await run(`${CONTINUES}\n${before}\n${KEEP} >${at(SHELL_STATE)}\n`);
  if (prepared.exitCode !== 0 || prepared.failure !== undefined)
    return failed("the tests could not be prepared", prepared);
  const tested = await run(`. ${at(SHELL_STATE)}\n${CONTINUES}\n${tests}\n`);
  if (tested.failure === "DEADLINE") return failed("the tests took too long", tested);
  if (tested.failure !== undefined || tested.cutBytes > 0) return failed("the tests ran into a limit", tested);
  const log: TestLog = { output: tested.stdout, exitCode: tested.exitCode };
  const verdict = task.judge(log);
  return verdict.resolved ? verdict : { ...verdict, details: { ...verdict.details, testLog: endOf(tested) } };
}

function failed(reason: string, result: ExecResult): InstanceVerdict {
  return { ...unresolved(reason), details: { testLog: endOf(result), limit: result.failure } };
}

/** For whoever reads the episode. */
function endOf({ stdout }: ExecResult): string {
  return stdout.slice(-2000);
}
