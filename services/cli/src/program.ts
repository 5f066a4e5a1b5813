// SPDX-License-Identifier: Apache-2.0
/** The commands of `whet` and their options. Each command's code is loaded when it runs, so that `--help` is quick. */
import { Command } from "commander";
import type { Option } from "commander";

import manifest from "../package.json" with { type: "json" };

import { addArtifactCommands } from "./artifact-commands.ts";
import { addClusterCommands } from "./cluster-commands.ts";
import { command } from "./command.ts";
import type { CommandContext, CommonOptions, Outcome } from "./commands/context.ts";
import type { RuntimeFlags } from "./commands/open-runtime.ts";
import type { RetrainFlags } from "./commands/retrain.ts";
import { useCluster } from "./commands/use-cluster.ts";
import type { CommandNode, Shell } from "./completion/completion.ts";
import { SHELLS, completionScript } from "./completion/completion.ts";
import { addEngineCommands, addEnvironmentCommands, addFleetCommands, addPoolCommands } from "./fleet-commands.ts";
import { addServingCommands } from "./serving-commands.ts";
import { PORT_NAMES } from "./runtime/port-names.ts";
import { addTaskCommands } from "./task-commands.ts";

const TENSORBOARD = ["--tensorboard <dir>", "write event files to a folder of the job in this one"] as const;
const EXIT_CODES = "\nExit codes: 0 done, 2 bad input, 3 the job failed, 1 anything else.";

/** @param opened  closed when the command has ended, also by an error */
export function buildProgram(
  context: CommandContext,
  argv: readonly string[],
  outcome: Outcome,
  opened: AsyncDisposableStack,
): Command {
  const program = new Command("whet")
    .description("Post-trains language agents by reinforcement learning, on this machine or against a controller.")
    .version(manifest.version)
    .option(
      "--context <name>",
      "a Kubernetes cluster, by its kubectl context (default: WHETSTONE_CONTEXT; none: this machine)",
    )
    .option("--namespace <name>", "where Whetstone is in the cluster (default: WHETSTONE_NAMESPACE or the context's)")
    .option(
      "--release <name>",
      "name of the installation; a namespace has one (default: WHETSTONE_RELEASE, else the one that is there)",
    )
    .addHelpText("after", EXIT_CODES)
    .exitOverride();
  prepareCommands(program, context, opened);
  addProjectCommands(program, context);
  addRuntimeCommands(program, context, argv, outcome);
  addTrainingCommands(program, context, outcome);
  addJobCommands(program, context, outcome);
  addEpisodeCommands(program, context, outcome);
  addPoolCommands(program, context);
  addEnvironmentCommands(program, context, outcome);
  addFleetCommands(program, context);
  addServingCommands(program, context);
  addEngineCommands(program, context, outcome);
  addBundleCommands(program, context);
  addModelCommands(program, context);
  addDatasetCommands(program, context);
  addTaskCommands(program, context, outcome);
  addClusterCommands(program, context);
  addCompletion(program, context);
  return program;
}

/** `--data` is WHETSTONE_DATA for this one command: what it runs looks for Python there. `--context` is WHETSTONE_ENDPOINT. */
function prepareCommands(program: Command, context: CommandContext, opened: AsyncDisposableStack): void {
  program.hook("preAction", async (_program, action) => {
    const { data } = action.opts<{ data?: string }>();
    if (data !== undefined) context.environment["WHETSTONE_DATA"] = data;
    const isRemote = action.opts<{ remote?: boolean }>().remote === true;
    opened.use(await useCluster(wordsOf(action), { ...program.opts(), isRemote }, context));
  });
}

/** ["jobs", "ls"] of `whet jobs ls`. */
function wordsOf(action: Command): string[] {
  return action.parent ? [...wordsOf(action.parent), action.name()] : [];
}

function addProjectCommands(program: Command, context: CommandContext): void {
  command(program, "init <dir>", "make a new project: an agent, its environment, a job and a test").action(
    async (directory: string, flags: object) => (await import("./commands/init.ts")).init(directory, flags, context),
  );
  command(program, "setup", "install what the local runtime needs beside Node: Python packages, PyTorch, nats-server")
    .option("--python <path>", "interpreter to build with, 3.11 or newer (default: PYTHON or python3)")
    .option("--torch-index <url>", "package index for PyTorch (default: TORCH_INDEX; its CPU builds without a GPU)")
    .option("--math-verify", "install Math-Verify instead, for jobs with `grader: math-verify`")
    .option("--miniwob", "install the pages of MiniWoB++ instead, for jobs with the environment `browser`")
    .action(async (flags: object) => (await import("./commands/setup.ts")).setup(flags, context));
}

function addRuntimeCommands(
  program: Command,
  context: CommandContext,
  argv: readonly string[],
  outcome: Outcome,
): void {
  runtimeOptions(command(program, "up", "start the local runtime: nats-server, engines, trainer and all services"))
    .option("--model <dir>", "model folder (default: a random tiny model, made on the spot)")
    .option("--detach", "return when everything is ready")
    .action(async (flags: RuntimeFlags) => (await import("./commands/up.ts")).up(flags, context, argv));
  command(program, "down", "stop the local runtime").action(async (flags: object) =>
    (await import("./commands/down.ts")).down(flags, context),
  );
  command(program, "status", "services, engines and the running job").action(async (flags: object) =>
    (await import("./commands/status.ts")).status(flags, context),
  );
  command(program, "doctor", "check this machine, and say what to do").action(async (flags: object) =>
    (await import("./commands/doctor.ts")).doctor(flags, context, outcome),
  );
}

/** What `up`, and commands that start a runtime themselves, can be told. */
function runtimeOptions(target: Command): Command {
  target
    .option("--engines <n>", "number of engines (default: 1)")
    .option("--gateways <n>", "replicas of the gateway, see docs/gateways.md (default: 1)")
    .option("--trainers <n>", "jobs that can train at once, see docs/several-jobs.md (default: 1)")
    .option("--trainer-threads <n>", "CPU threads of the trainer (default: 1)")
    .option("--trainer-dtype <type>", "float32 or bfloat16: what the trainer computes in (default: float32)")
    .option("--engine-dtype <type>", "float32 or bfloat16: what engines compute in, weights too (default: float32)")
    .option(
      "--trainer-backend <name>",
      "local: processes of this machine; verl: Ray actors, see docs/verl.md (default: local)",
    )
    .option("--trainer-ranks <n>", "processes that share a job's models, a device each (default: 1)")
    .option(
      "--object-store <url>",
      "s3://bucket/prefix for jobs with weights.transport objectStore, see docs/object-store.md (default: none)",
    )
    .option(
      "--store-episodes",
      "bodies of episodes above 512 KiB go to the object store, and not to NATS, see docs/object-store.md (with --object-store)",
    )
    .option(
      "--weights-dir <folder>",
      "where engines keep the weights that they fetched, a folder each, see docs/weights.md (default: in memory only)",
    )
    .option(
      "--own-data",
      "trainer, engines and gateways share no folder with the controller, as on several nodes, see docs/object-store.md",
    )
    .option(
      "--python-env <module>",
      'serve environments in Python, a file, a module or gymnasium:<id>, in the pool "python" (repeatable)',
      (value: string, before: string[] = []): string[] => [...before, value],
    );
  for (const name of PORT_NAMES)
    target.option(`--${name}-port <port>`, `fix the port of ${name} (default: a free one)`);
  return target;
}

function addTrainingCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const collect = (value: string, before: string[]): string[] => [...before, value];
  runtimeOptions(
    command(
      program,
      "train <job>",
      "submit a job (YAML, JSON or TypeScript) and watch it; starts a runtime if none is up",
    ),
  )
    .option("--model <dir>", "model folder, in place of the job's model.path")
    .option("--set <path=value>", "change a setting of the job file, e.g. loop.steps=5 (repeatable)", collect, [])
    .option("--watch", "watch until the job is finished (default)")
    .option("--no-watch", "only submit")
    .option(...TENSORBOARD)
    .action(async (file: string, flags: RuntimeFlags) =>
      (await import("./commands/train.ts")).train(file, flags, context, outcome),
    );
  addEvalCommand(program, context, outcome);
}

function addEvalCommand(program: Command, context: CommandContext, outcome: Outcome): void {
  const collect = (value: string, before: string[] = []): string[] => [...before, value];
  const evaluation = runtimeOptions(command(program, "eval", "pass@k of a model, without training"))
    .option("--model <dir>", "model folder (default: the job file's, else the runtime's own)")
    .option("--job <file>", "job file whose agent, environment, limits and sampling are used")
    .option("--environment <kind>", "environment (default: the job file's, else frozenlake)")
    .option("--agent <kind>", "agent (default: the job file's, else the environment's kind)")
    .option("--dataset <what>", "a dataset's name, name:split, or a file of tasks (repeatable)", collect)
    .option("--tasks <first:count>", "task seeds (default: the job file's validation dataset)")
    .option("--take <n>", "only the first n tasks")
    .option("--attempts <n>", "episodes a task", "1")
    .option("--k <list>", "values of k, e.g. 1,4 (default: 1 and --attempts)")
    .option("--concurrency <n>", "most episodes at a time (default: as many as the orchestrators have room for)")
    .option("--temperature <t>", "in place of the job file's")
    .option("--top-p <p>", "in place of the job file's")
    .option("--top-k <k>", "in place of the job file's")
    .option("--min-p <p>", "in place of the job file's")
    .option("--max-tokens <n>", "tokens an answer, in place of the job file's")
    .option("--seed <n>", "in place of the job file's")
    .option("--name <name>", "of the evaluation: the same command with it goes on where it was interrupted")
    .option("--report <dir>", "write report.json and report.html")
    .action(async (flags: object) =>
      (await import("./commands/eval.ts")).evaluate(flags as { attempts: string }, context, outcome),
    );
  command(evaluation, "compare <before> <after>", "two reports (report.json), task by task").action(
    async (before: string, after: string, _flags: object, own: Command) =>
      (await import("./commands/eval-compare.ts")).compareEvaluations(before, after, own.optsWithGlobals(), context),
  );
}

function addJobCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const jobs = program.command("jobs").description("jobs: list, look at, watch, steer, audit").exitOverride();
  const load = async () => await import("./commands/jobs.ts");
  command(jobs, "ls", "all jobs, newest first").action(async (flags: object) =>
    (await load()).listJobs(flags, context),
  );
  command(jobs, "get <job>", "one job").action(async (name: string, flags: object) =>
    (await load()).getJob(name, flags, context),
  );
  command(jobs, "watch <job>", "watch a job until it is finished")
    .option(...TENSORBOARD)
    .action(async (name: string, flags: object) => (await load()).watch(name, flags, context, outcome));
  command(jobs, "metrics <job>", "the numbers of every step and validation, one JSON document a line")
    .option(TENSORBOARD[0], "write event files to a folder of the job in this one, in place of printing")
    .option("--follow", "until the job is finished")
    .action(async (name: string, flags: object) =>
      (await import("./commands/metrics.ts")).exportMetrics(name, flags, context),
    );
  const changes = {
    cancel: ["cancelJob", "end a job; what is in flight is voided"],
    suspend: ["suspendJob", "stop a job after its running step; nothing is lost"],
    resume: ["resumeJob", "go on with a suspended job"],
  } as const;
  for (const [name, [method, description]] of Object.entries(changes)) {
    command(jobs, `${name} <job>`, description).action(async (job: string, flags: object) =>
      (await load()).change(method, job, flags, context),
    );
  }
  command(jobs, "delete <job>", "remove a finished job with its weights, checkpoints, episodes and records")
    .option("--yes", "without asking")
    .action(async (name: string, flags: object) =>
      (await import("./commands/job-delete.ts")).deleteJob(name, flags, context),
    );
  command(
    jobs,
    "audit <job>",
    "recount a job's books from its streams and checkpoint: lost, duplicated, stale, unlabelled",
  ).action(async (name: string, flags: object) =>
    (await import("./commands/audit.ts")).audit(name, flags, context, outcome),
  );
  command(jobs, "retrain <job>", "do steps again from ledger and checkpoint, and compare the weights bit for bit")
    .requiredOption("--from <steps>", "steps done when it begins: a checkpoint, or 0")
    .requiredOption("--to <version>", "version that it ends with")
    .option("--trainer-threads <n>", "as the job's trainer had", "1")
    .option("--trainer-dtype <type>", "as the job's trainer had", "float32")
    .option("--trainer-backend <local|verl>", "as the job's trainer had", "local")
    .option("--trainer-ranks <n>", "of the backend verl, as the job's trainer had", "1")
    .action(async (name: string, flags: object) =>
      (await import("./commands/retrain.ts")).retrain(name, flags as RetrainFlags, context, outcome),
    );
  command(jobs, "checkpoints <job>", "checkpoints of a job, newest first").action(async (name: string, flags: object) =>
    (await load()).listCheckpoints(name, flags, context),
  );
}

function addEpisodeCommands(program: Command, context: CommandContext, outcome: Outcome): void {
  const episodes = program.command("episodes").description("episodes: list, read turn by turn").exitOverride();
  const load = async () => await import("./commands/episodes.ts");
  const list = "newest n (default: 20; all of a group and with --failed; 0: all)";
  selection(command(episodes, "ls <job>", "sealed episodes of a job, newest first"), list).action(
    async (job: string, flags: object) => (await load()).listEpisodes(job, flags, context),
  );
  selection(
    command(episodes, "export <job>", "sealed episodes with their tokens, in a file"),
    "newest n (default: all)",
  )
    .option("--jsonl <file>", "one episode a line")
    .option("--parquet <file>", "one turn a row (docs/records.md)")
    .option("--pairs <file>", "tasks for DPO: of each group the best and the worst episode")
    .action(async (job: string, flags: object) =>
      (await import("./commands/episode-export.ts")).exportEpisodes(job, flags, context),
    );
  selection(
    command(episodes, "replay <what>", "play an episode, or a job's newest, again with the recorded answers; compare"),
    list,
  ).action(async (what: string, flags: object) =>
    (await import("./commands/episode-replay.ts")).replayEpisodes(what, flags, context, outcome),
  );
  command(episodes, "show <episode>", "one episode, turn by turn")
    .option("--tokens", "ids, log-probabilities and version labels of every token")
    .option("--html <file>", "write it as a page, its pictures in it, instead")
    .action(async (id: string, flags: object) => (await load()).showEpisode(id, flags, context));
}

/** Which of a job's episodes. */
function selection(target: Command, last: string): Command {
  return target
    .option("--group <name>", "only this group, e.g. g12")
    .option("--purpose <purpose>", "train, validation or demonstration")
    .option("--last <n>", last)
    .option("--failed", "only those that failed");
}

function addBundleCommands(program: Command, context: CommandContext): void {
  const bundle = program.command("bundle").description("modules of user code in the store").exitOverride();
  command(bundle, "push <module>", "bundle a module, keep it, print the digest that spec.job.module names").action(
    async (module: string, flags: object) => (await import("./commands/bundle.ts")).pushBundle(module, flags, context),
  );
}

function addModelCommands(program: Command, context: CommandContext): void {
  const models = program.command("models").description("model folders: make, import, check, push").exitOverride();
  const load = async () => await import("./commands/models.ts");
  command(models, "init <dir>", "make a random model with its own tokenizer and chat template")
    .option("--preset <name>", "tiny (0.36 M parameters), small (10 M), llama-135m")
    .option("--seed <n>", "seed of the weights")
    .option("--vocab-size <n>", "at least 262")
    .option("--max-position <n>", "longest context in tokens")
    .option("--initializer-range <x>", "standard deviation of the random weights, default 0.02")
    .action(async (directory: string, flags: object) => (await load()).initModel(directory, flags, context));
  command(models, "import <dir>", "import a Hugging Face folder or a .gguf file")
    .requiredOption("--source <path>", "where it is")
    .action(async (directory: string, flags: object) =>
      (await load()).importModel(directory, flags as { source: string }, context),
    );
  command(models, "check <dir>", "can this folder be trained, and are its conversations exact?").action(
    async (directory: string, flags: object) => (await load()).check(directory, flags, context),
  );
  addArtifactCommands(models, "models", context);
}

function addDatasetCommands(program: Command, context: CommandContext): void {
  const datasets = program.command("datasets").description("datasets: tasks by name, in splits").exitOverride();
  const load = async () => await import("./commands/datasets.ts");
  const split = ["--split <name>", 'the split (default: the only one, else "default")'] as const;
  const remote = ["--remote", "those of the installation, not of this machine"] as const;
  const artifacts = async () => await import("./commands/artifacts.ts");
  command(datasets, "ls", "all datasets of this machine, or of the installation")
    .option(...remote)
    .action(async (flags: CommonOptions & { remote?: boolean }) =>
      flags.remote ? (await artifacts()).list("datasets", flags, context) : (await load()).listDatasets(flags, context),
    );
  command(datasets, "add <name> <file>", "register a .jsonl, .csv, .tsv or .parquet file")
    .option("--split <name>", "the split it becomes (default: default)")
    .option("--description <text>", "what it is")
    .option("--replace", "in place of what the split has")
    .action(async (name: string, file: string, flags: object) => (await load()).addDataset(name, file, flags, context));
  command(datasets, "show <name>", "splits, digests and first tasks")
    .option("--split <name>", "only this split")
    .option("--rows <n>", "tasks of each split (default: 3)")
    .action(async (name: string, flags: object) => (await load()).showDataset(name, flags, context));
  command(datasets, "rm <name>", "forget a dataset")
    .option("--split <name>", "only this split, on this machine")
    .option(...remote)
    .action(async (name: string, flags: CommonOptions & { remote?: boolean }) =>
      flags.remote
        ? (await artifacts()).remove({ kind: "datasets", name }, flags, context)
        : (await load()).removeDataset(name, flags, context),
    );
  addArtifactCommands(datasets, "datasets", context);
  command(datasets, "filter <name>", "keep the tasks that evaluations found neither too easy nor too hard")
    .requiredOption("--eval <report.json...>", "reports of `whet eval --report`; several count together")
    .requiredOption("--as <name>", "the new dataset")
    .option("--min <share>", "lowest pass rate kept, 0 to 1 (default: 0)")
    .option("--max <share>", "highest pass rate kept, 0 to 1 (default: 1)")
    .option(...split)
    .option("--replace", "in place of what the new dataset's split has")
    .action(async (name: string, flags: object) =>
      (await load()).filterDataset(name, flags as { eval: string[]; as: string }, context),
    );
  command(datasets, "export <name> <file>", "write a split to a .jsonl or .parquet file")
    .option(...split)
    .action(async (name: string, file: string, flags: object) => (await load()).exportTo(name, file, flags, context));
}

function addCompletion(program: Command, context: CommandContext): void {
  const shells = [...SHELLS];
  const completion = program
    .command("completion")
    .description(`print a completion script: ${shells.join(", ")}`)
    .exitOverride();
  for (const shell of shells) {
    completion
      .command(shell)
      .description(`for ${shell}`)
      .exitOverride()
      .action(() => context.terminal.line(completionScript(shell satisfies Shell, treeOf(program)).trimEnd()));
  }
}

/** The commands as data, for completion. */
export function treeOf(node: Command): CommandNode {
  const options = node.options.map((option: Option) => ({
    flag: option.long ?? option.short ?? "",
    description: option.description,
  }));
  return { name: node.name(), description: node.description(), options, children: node.commands.map(treeOf) };
}
