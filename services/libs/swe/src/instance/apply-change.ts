// SPDX-License-Identifier: Apache-2.0
import type { ExecResult } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { quoted } from "../agent-shell.ts";
import type { RepositorySandbox } from "./repository-sandbox.ts";
import type { RepositoryTask } from "./repository-task.ts";

// G4: of a change, the tests and what Python or pytest would run unasked are undone, whatever the patch called them: what it has
// written is found by looking at the files, not at the patch.

const OWN = { timeoutMs: 300_000, maxOutputBytes: 8 * 1024 * 1024 } as const;
const PATCH = ".whetstone-change.patch";
const STAMP = ".whetstone-stamp";

/** SWE-bench's order. A try that failed leaves parts behind, which are taken away before the next. */
const TRIES = [
  "git apply --verbose",
  "git apply --verbose --3way",
  "git apply --verbose --reject",
  "patch --batch --forward --fuzz=5 -p1 -i",
];

/** What is run or read without being asked for: by Python when it starts, by pytest, or in place of pytest. */
const UNASKED =
  /(?:^|\/)(?:conftest\.py|sitecustomize\.py|usercustomize\.py|[^/]*\.pth|\.?pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml)$|^(?:_?pytest|pluggy|iniconfig)(?:\.py$|\/)/u;

/** Why the change counts for nothing; undefined: it is in place. @throws EpisodeError TASK, SandboxError */
export async function applyChange(
  shell: RepositorySandbox,
  change: Uint8Array,
  task: Pick<RepositoryTask, "tests" | "repaired">,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const [patch, stamp] = [PATCH, STAMP].map((name) => quoted(`${shell.sandbox.workspace}/${name}`)) as [string, string];
  const run = (command: string): Promise<ExecResult> => shell.run(command, { ...OWN, signal });
  const list = async (command: string): Promise<string[]> => namesOf(await run(command));
  // A prepared repository may be only just written. The kernel's clock of files ticks every few milliseconds.
  const begun = await run(`git rev-parse HEAD && sleep 0.1 && touch ${stamp} && sleep 0.1`);
  if (begun.exitCode !== 0)
    throw new EpisodeError("TASK", `there is no repository in ${shell.root}: ${begun.stderr.trim().slice(-500)}`);
  const besideBefore = new Set(await list("git ls-files -z --others"));
  await shell.sandbox.upload([{ path: PATCH, content: change }], signal);
  if (!(await applies(run, patch))) return "its patch does not apply";
  const written = await list(`find . -path ./.git -prune -o -newer ${stamp} ! -type d -printf '%P\\0'`);
  if (written.some((name) => besideBefore.has(name)))
    return "it changes what is installed beside the repository's own files";
  const isUndone = undoneBy(task);
  const tracked = (await list("git diff --no-ext-diff --name-only --no-renames -z HEAD")).filter(isUndone);
  const beside = (await list("git ls-files -z --others")).filter((name) => !besideBefore.has(name) && isUndone(name));
  await each(run, "git checkout -q HEAD --", tracked);
  await each(run, "rm -f --", beside);
  return undefined;
}

function undoneBy({ tests, repaired }: Pick<RepositoryTask, "tests" | "repaired">): (name: string) => boolean {
  const [isTest, isRepaired] = [tests, repaired].map(
    (names) => (name: string) => names.some((each) => name === each || name.startsWith(`${each}/`)),
  ) as [(name: string) => boolean, (name: string) => boolean];
  return (name) => isTest(name) || (UNASKED.test(name) && !isRepaired(name));
}

async function applies(run: (command: string) => Promise<ExecResult>, patch: string): Promise<boolean> {
  for (const [i, command] of TRIES.entries()) {
    if (i > 0) await run("git reset -q --hard HEAD; git clean -qfd");
    if ((await run(`${command} ${patch}`)).exitCode === 0) return true;
  }
  return (await run(`git apply --check --reverse ${patch}`)).exitCode === 0;
}

/** A list that was cut names too much to be a repair. */
function namesOf({ exitCode, stdout, cutBytes }: ExecResult): string[] {
  if (exitCode !== 0 || cutBytes > 0)
    throw new EpisodeError("GRADER", `the repository's files cannot be listed (${exitCode})`);
  return stdout.split("\0").filter((name) => name !== "");
}

const AT_ONCE = 200;

async function each(
  run: (command: string) => Promise<ExecResult>,
  command: string,
  names: readonly string[],
): Promise<void> {
  for (let at = 0; at < names.length; at += AT_ONCE) {
    const { exitCode, stderr } = await run(
      `${command} ${names
        .slice(at, at + AT_ONCE)
        .map(quoted)
        .join(" ")}`,
    );
    if (exitCode !== 0) throw new EpisodeError("GRADER", `files cannot be put back: ${stderr.trim().slice(-300)}`);
  }
}
