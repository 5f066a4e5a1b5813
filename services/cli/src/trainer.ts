// SPDX-License-Identifier: Apache-2.0
/**
 * The programmatic entry: `import { trainJob } from "@whetstone/cli/trainer"`. `AgentTrainer.train()` of the SDK comes here; it
 * does what `whet train job.ts` does, for a program in place of a terminal.
 */
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";

import { WhetstoneError, isAbort } from "@whetstone/core";
import { bundleModule } from "@whetstone/modules/bundle";
import type { Job, JobSpec, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import type { JobDocument, StepSummary, TrainRequest, TrainResult, ValidationSummary } from "@whetstone/sdk";

import { lineTerminal } from "./terminal/line-terminal.ts";
import { followJob } from "./jobs/job-watch.ts";
import { checkModel } from "./models/models-tool.ts";
import { isRemoteModel } from "./models/remote-model.ts";
import type { CommandContext } from "./commands/context.ts";
import { runtimeModel } from "./commands/runtime-model.ts";
import type { ControllerConnection } from "./commands/controller-connection.ts";
import { connectController } from "./commands/controller-connection.ts";
import { useCluster } from "./commands/use-cluster.ts";
import { submitJob, suspendCleanly } from "./commands/submit.ts";
import { readAlgorithmModule } from "./jobs/algorithm-module.ts";
import { readJobSpec } from "./jobs/job-file.ts";
import { jobName } from "./jobs/job-name.ts";
import { stepSummary, validationSummary } from "./jobs/summaries.ts";
import { phaseName } from "./terminal/watch-view.ts";

/**
 * Trains a job to its end: against WHETSTONE_ENDPOINT, else the running local runtime, else one started for it and stopped after.
 * @throws WhetstoneError FAILED_PRECONDITION when the job fails; CANCELLED when it is cancelled, or the signal aborts: then it is
 * suspended, and trained again it goes on.
 */
export async function trainJob(request: TrainRequest): Promise<TrainResult> {
  const context = contextOf(request);
  await using _cluster = await useCluster(["train"], {}, context); // WHETSTONE_CONTEXT, if it is set.
  const { spec, code, remote } = await readRequest(request, context);
  const own = spec.model?.path === runtimeModel(request.data, context) ? undefined : spec.model?.path;
  if (own !== undefined && !remote) await checkModel(own, "model.path", context.signal);
  const flags = {
    ...(request.data === undefined ? {} : { data: request.data }),
    ...(own === undefined ? {} : { model: own }),
  };
  await using controller = await connectController(flags, context);
  await submitJob(controller.jobs, spec, code);
  return await watchToEnd(controller, spec.name, request, context); // The connection ends with this scope.
}

function contextOf(request: TrainRequest): CommandContext {
  const environment = { ...process.env, ...(request.data === undefined ? {} : { WHETSTONE_DATA: request.data }) };
  const signal = request.signal ?? new AbortController().signal;
  const force = new AbortController().signal;
  return { terminal: lineTerminal(request.onLine ?? (() => {})), environment, signal, force };
}

interface Submission {
  readonly spec: JobSpec;
  readonly code: Uint8Array;
  /** Its model lies where the controller runs. */
  readonly remote: boolean;
}

async function readRequest({ module, definition, data }: TrainRequest, context: CommandContext): Promise<Submission> {
  const path = module.startsWith("file:") ? fileURLToPath(module) : module;
  const document: JobDocument = await definition.document();
  const isOwn = definition.actors.length + definition.environments.length > 0;
  const bundle = isOwn ? await bundleModule(path) : undefined;
  const model = runtimeModel(data, context);
  if (document["model"] === undefined && model !== undefined) document["model"] = { path: model };
  if (bundle) document["module"] = { ...(document["module"] as object | undefined), digest: bundle.digest };
  else delete document["module"];
  readAlgorithmModule(document, dirname(path));
  document["name"] ??= jobName(basename(path), document);
  const remote = isRemoteModel(document, context.environment);
  return { spec: readJobSpec(document, dirname(path)), code: bundle?.code ?? new Uint8Array(), remote };
}

async function watchToEnd(
  controller: ControllerConnection,
  name: string,
  request: TrainRequest,
  context: CommandContext,
): Promise<TrainResult> {
  const { onStep, onValidation, onLine = () => {} } = request;
  const steps: StepSummary[] = [];
  const validations: ValidationSummary[] = [];
  let phase = "";
  const events = {
    job: (job: Job): void => {
      if (phaseName(job) !== phase) onLine(`${name} ${(phase = phaseName(job)).toLowerCase()}`);
    },
    step: (record: StepRecord): void => tell(stepSummary(record), steps, onStep),
    validation: (result: ValidationResult): void => tell(validationSummary(result), validations, onValidation),
    lost: (error: WhetstoneError): void => onLine(`${error.message}; trying again …`),
  };
  const job = await followJob(controller.jobs, name, events, context.signal).catch(async (error: unknown) => {
    if (context.signal.aborted && isAbort(error)) await suspendCleanly(controller.jobs, name, context.force);
    throw error;
  });
  if (job.status?.phase !== JobPhase.SUCCEEDED) throw unsuccessful(job);
  return { job: name, modelPath: job.status.modelPath, steps, validations };
}

function tell<T>(item: T, all: T[], listener: ((item: T) => void) | undefined): void {
  all.push(item);
  listener?.(item);
}

function unsuccessful(job: Job): WhetstoneError {
  const [name, { reason = "", message = "" } = {}] = [job.spec?.name ?? "", job.status];
  if (job.status?.phase === JobPhase.CANCELLED) return new WhetstoneError("CANCELLED", `${name} was cancelled`);
  return new WhetstoneError("FAILED_PRECONDITION", `${name} failed: ${message || reason}`, { context: { reason } });
}
