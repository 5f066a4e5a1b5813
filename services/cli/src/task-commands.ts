// SPDX-License-Identifier: Apache-2.0
import type { Command } from "commander";

import { addArtifactCommands } from "./artifact-commands.ts";
import { command } from "./command.ts";
import type { CommandContext, Outcome } from "./commands/context.ts";

export function addTaskCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const tasks = program
    .command("tasks")
    .description("tasks: make them, prove them, and keep files that environments read")
    .exitOverride();
  const load = async () => await import("./commands/tasks.ts");
  command(
    tasks,
    "make <kind>",
    "make tasks; kind swe: bugs planted in libraries; search: questions over a corpus of invented facts",
  )
    .requiredOption("--out <dir>", "folder for train.jsonl, heldout.jsonl, and the libraries or corpus.jsonl")
    .option("--libraries <names>", "only these, e.g. semver,toolz,qs (default: all of the language that are pinned)")
    .option("--language <name>", "where no libraries are named: python or javascript (default: python)")
    .option("--pins <file>", "JSON list of libraries in place of the built-in ones (docs/swe.md)")
    .option("--count <n>", "tasks of each library (default: 40), or questions in train.jsonl (default: 400)")
    .option("--pairs <share>", "of the tasks, 0 to 1, that have two bugs (default: 0.2)")
    .option("--heldout <n>", "kind search: questions in heldout.jsonl (default: a quarter of --count)")
    .option("--hops <n>", "kind search: facts between question and answer, 1 to 4 (default: 2)")
    .option("--seed <n>", "the same seed makes the same tasks (default: 0)")
    .option("--minutes <n>", "longest time for each library (default: 60)")
    .option(
      "--packages <dir>",
      "where downloaded packages are kept (default: WHETSTONE_PACKAGES or ~/.whetstone/packages)",
    )
    .action(async (kind: string, flags: object) =>
      (await load()).makeTaskFiles(kind, flags as { out: string }, context),
    );
  command(
    tasks,
    "verify <path>",
    "grade each task's own repair (1) and nothing at all (0), as an episode is graded; also of Harbor's task folders",
  )
    .option("--libraries <dir>", "folder of the libraries (default: libraries/ beside the tasks)")
    .option("--sample <n>", "only so many, chosen by --seed")
    .option("--seed <n>", "of the sample (default: 0)")
    .option("--at-once <n>", "tasks that are graded at once (default: 1)")
    .option("--docker", "Harbor's folders: in containers, of the images that tasks name")
    .option("--image <name>", 'with --docker: of tasks that name none; "{task}" in it is the task\'s name')
    .option(
      "--states <dir>",
      "Harbor's folders: one folder a task, what / holds at first, in place of their Dockerfiles",
    )
    .option("--reward-key <name>", "Harbor's folders: which number of reward.json counts")
    .action(async (path: string, flags: object) =>
      (await import("./commands/tasks-verify.ts")).verifyTasks(path, flags, context, outcome),
    );
  addArtifactCommands(tasks, "tasks", context);
  const corpora = program
    .command("corpora")
    .description("corpora: what the environment search looks in")
    .exitOverride();
  command(
    corpora,
    "index <file>",
    "build a corpus' index now; the env-runner of this machine then only opens it",
  ).action(async (file: string, flags: object) =>
    (await import("./commands/tasks-search.ts")).indexCorpus(file, flags, context),
  );
}
