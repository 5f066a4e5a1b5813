// SPDX-License-Identifier: Apache-2.0
import { readFile, readdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { DEFAULT_POOL } from "@whetstone/messaging";
import type { ModuleCode } from "@whetstone/modules/code";
import type { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import type { RpcClient } from "@whetstone/rpc";
import type { Dataset, JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Task } from "@whetstone/proto/types/v1/types";
import { compileJob, isDemonstrated, isHeldOut } from "../compiled-job.ts";
import { needsAgent, type Violation } from "./validate-job.ts";
import type { TaskList } from "../../datasets/dataset.ts";
import { Findings } from "./violation.ts";
import { checkHeldOutSize, checkValidationSize } from "./validate-dataset.ts";
import { checkDemonstrations } from "./validate-demonstrations.ts";
import { loadDataset } from "../../datasets/dataset-file.ts";
import { UnreadableFileError } from "../../datasets/file-lines.ts";
import type { Artifacts } from "../../artifacts/artifacts.ts";
import { pinArtifacts, unpinned, withArtifactPaths } from "../../artifacts/job-artifacts.ts";
import { checkAgent } from "./agent-check.ts";
import type { Config } from "../../config.ts";
import { checkPlayed } from "./validate-players.ts";
import type { FindHost } from "../../pools/environment-hosts.ts";
import { KIND, notOfThePool, whoServes } from "./environment-kind.ts";
import { type Rehearsal, rehearseReset } from "./environment-rehearsal.ts";
import { rehearseEpisode } from "./episode-rehearsal.ts";
import type { EngineDeps } from "./engine-traits.ts";
import { checkTruncatedSampling } from "./truncated-sampling.ts";
import { checkTransport, type TransportDeps } from "./weight-transport.ts";
import { modelPaths } from "./model-paths.ts";
import { checkOwnData } from "./shared-data.ts";
import { whereLooked } from "./where-looked.ts";

export interface WorldDeps {
  readonly trainerClient: TransportDeps["trainerClient"];
  readonly engines: EngineDeps;
  readonly findHost: FindHost;
  readonly rollouts: RpcClient<typeof RolloutService>;
  /** Environments, which a pool may have to be woken for, are looked at only when all else is well. For those who look again. */
  readonly environmentsLast?: boolean;
  readonly config?: Pick<Config, "kube" | "dataPath" | "sharedData">;
  readonly artifacts: Artifacts;
}

/** What of a job can only be judged by looking: files, its code, registered agents and environments, a first reset (I11). */
export async function checkWorld(spec: JobSpec, module: ModuleCode | undefined, deps: WorldDeps): Promise<Violation[]> {
  const { config, artifacts } = deps;
  const foreign = config?.sharedData === false ? checkOwnData(spec) : [];
  if (foreign.length > 0) return foreign;
  const { spec: pinned, violations } = await pinArtifacts(spec, artifacts);
  const absent = [...violations.map((one) => ({ ...one, curable: true as const })), ...unpinned(spec, pinned)];
  if (absent.length > 0) return absent;
  const resolved = withArtifactPaths(spec, artifacts.layout);
  const found = [
    ...(await checkModels(resolved, config)),
    ...(await checkTransport(resolved, deps)),
    ...(await checkTruncatedSampling(resolved, deps.engines)),
  ];
  const { train, validation } = await checkDatasets(resolved, found, config);
  if (!needsAgent(spec)) return [...found, ...checkPlayed(spec, undefined)];
  const first = isDemonstrated(spec) ? validation : (train ?? validation);
  const code = module && kept(module, spec);
  return [...found, ...(await checkPlayers({ spec, module: code, task: await first?.at(0) }, deps, found.length > 0))];
}

/** A module is loaded where it will run, so in what the job wants it kept in. */
function kept(module: ModuleCode, spec: JobSpec): ModuleCode {
  return { ...module, ...(spec.module?.sandbox && { sandbox: spec.module.sandbox }) };
}

async function checkPlayers(
  { spec, module, task }: Omit<Rehearsal, "task"> & { readonly task: Task | undefined },
  { findHost, rollouts, environmentsLast = false, artifacts }: WorldDeps,
  isWrong: boolean,
): Promise<Violation[]> {
  const found = await checkAgent(spec, module, { rollouts, modelPath: modelPathOf(spec, artifacts) });
  const isBroken = found.some(({ path }) => path === "module"); // The environments' host would say the same again.
  const isNotYet = environmentsLast && (isWrong || found.length > 0);
  if (isBroken || isNotYet || !task) return found;
  const rehearsal = { spec, module, task };
  const reset = spec.environment?.kind ? await tryReset(findHost, rehearsal) : [];
  if (reset === undefined) return found; // What is wrong with its arguments, its first episodes will say.
  const all = [...found, ...reset];
  return all.length > 0 ? all : await rehearseEpisode(rollouts, rehearsal);
}

function modelPathOf(spec: JobSpec, { layout }: Artifacts): string {
  return withArtifactPaths(spec, layout).model?.path ?? "";
}

/** Undefined: no env-runner is there now. */
async function tryReset(findHost: FindHost, rehearsal: Rehearsal): Promise<Violation[] | undefined> {
  const { client, violation, servedBy, kinds } = await findHost(rehearsal.spec.environment?.pool ?? DEFAULT_POOL);
  if (violation) return [violation];
  await using host = client;
  const found = notOfThePool(rehearsal, kinds) ?? (host && (await rehearseReset(host, rehearsal)));
  if (found === undefined) return undefined;
  const advice = found.some(({ path }) => path === KIND) && `; ${await whoServes(rehearsal.spec, servedBy)}`;
  return found.map((each) => (advice && each.path === KIND ? { ...each, reason: each.reason + advice } : each));
}

async function checkModels(spec: JobSpec, config: WorldDeps["config"]): Promise<Violation[]> {
  const { "model.path": own = "", ...others } = modelPaths(spec);
  const found = await checkModel("model.path", own, config);
  for (const [field, path] of Object.entries(others)) if (path) found.push(...(await checkModel(field, path, config)));
  return found;
}

async function checkModel(field: string, path: string, config: WorldDeps["config"]): Promise<Violation[]> {
  if (!isAbsolute(path)) return [{ path: field, reason: `must be an absolute path, got "${path}"` }];
  const at = (reason: string): Violation[] => [{ path: field, reason, curable: true }];
  const files = await readdir(path).catch(() => undefined);
  if (!files) return at(`folder ${path} does not exist or cannot be read${await whereLooked(config)}`);
  for (const needed of ["config.json", "tokenizer.json"])
    if (!files.includes(needed)) return at(`folder ${path} has no ${needed}: not a model in Hugging Face layout`);
  if (!files.some((file) => file.endsWith(".safetensors"))) return at(`folder ${path} has no *.safetensors`);
  if (!(await hasChatTemplate(path, files)))
    return at(
      `model in ${path} has no chat template: add chat_template.jinja or chat_template in tokenizer_config.json`,
    );
  return [];
}

async function hasChatTemplate(path: string, files: readonly string[]): Promise<boolean> {
  if (files.includes("chat_template.jinja")) return true;
  const text = await readFile(join(path, "tokenizer_config.json"), "utf8").catch(() => "{}");
  return Boolean((JSON.parse(text) as { chat_template?: unknown }).chat_template);
}

async function checkDatasets(
  spec: JobSpec,
  found: Violation[],
  config: WorldDeps["config"],
): Promise<{ train: TaskList | undefined; validation: TaskList | undefined }> {
  const train = await checkDataset("train", spec.train, found, config);
  const validation = await checkDataset("validation.dataset", spec.validation?.dataset, found, config);
  const sizes = new Findings();
  if (isHeldOut(spec)) checkHeldOutSize(sizes, (validation?.length ?? 0) * compileJob(spec).groupSize);
  else if (spec.validation && validation) checkValidationSize(sizes, spec.validation, validation.length);
  found.push(...(await checkLearned(spec, train, validation)), ...sizes.violations);
  return { train, validation };
}

/** Tasks that SFT and DPO train, and those that are evaluated for them. */
async function checkLearned(
  spec: JobSpec,
  train: TaskList | undefined,
  validation: TaskList | undefined,
): Promise<Violation[]> {
  const isOfPairs = spec.algorithm?.kind.case === "dpo";
  return [
    ...(isDemonstrated(spec) && train ? await checkDemonstrations(train, "train", isOfPairs) : []),
    ...(isHeldOut(spec) && validation ? await checkDemonstrations(validation, "validation.dataset", isOfPairs) : []),
  ];
}

async function checkDataset(
  path: string,
  dataset: Dataset | undefined,
  found: Violation[],
  config: WorldDeps["config"],
): Promise<TaskList | undefined> {
  if (!dataset) return undefined;
  try {
    return await loadDataset(dataset);
  } catch (error) {
    found.push({
      path: `${path}.${dataset.source.case ?? "source"}`,
      reason: await reasonOf(error, dataset, config),
      ...(dataset.source.case === "jsonl" && { curable: true }),
    });
    return undefined;
  }
}

async function reasonOf(error: unknown, { source }: Dataset, config: WorldDeps["config"]): Promise<string> {
  if (!(error instanceof UnreadableFileError) || source.case !== "jsonl")
    return error instanceof Error ? error.message : String(error);
  return `file ${source.value} does not exist or cannot be read${await whereLooked(config)}`;
}
