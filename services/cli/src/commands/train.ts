// SPDX-License-Identifier: Apache-2.0
/** `whet train job.yaml`, `whet train job.ts`. */
import { isAbsolute, resolve } from "node:path";

import { isArtifact } from "@whetstone/core";
import { toJson } from "@bufbuild/protobuf";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { JobSchema } from "@whetstone/proto/jobs/v1/jobs";

import { findController } from "../connect/endpoint.ts";
import { readAlgorithmModule } from "../jobs/algorithm-module.ts";
import { applyAssignments, jobFolder } from "../jobs/job-file-reader.ts";
import { openJob } from "../jobs/job-source.ts";
import { checkLogFolder } from "../metrics/event-folder.ts";
import { checkModel } from "../models/models-tool.ts";
import { isRemoteModel } from "../models/remote-model.ts";
import { badInput } from "../cli-error.ts";
import { readJobSpec } from "../jobs/job-file.ts";
import { setPath } from "../jobs/set-path.ts";
import type { CommandContext, Outcome } from "./context.ts";
import type { RuntimeFlags } from "./open-runtime.ts";
import { runtimeModel } from "./runtime-model.ts";
import { connectController } from "./controller-connection.ts";
import { submitJob, watchToEnd } from "./submit.ts";

export interface TrainFlags extends RuntimeFlags {
  readonly tensorboard?: string;
  readonly set?: readonly string[];
  readonly watch?: boolean;
}

interface Prepared {
  readonly spec: JobSpec;
  readonly code: Awaited<ReturnType<typeof openJob>>["code"];
}

export async function train(file: string, flags: TrainFlags, context: CommandContext, outcome: Outcome): Promise<void> {
  const json = flags.json === true;
  const { spec, code } = await prepare(file, flags, context);
  const model = spec.model?.path;
  const own = model === undefined || model === runtimeModel(flags.data, context) ? {} : { model };
  await using controller = await connectController({ ...flags, ...own }, context);
  const { job, created } = await submitJob(controller.jobs, spec, code);
  if (!json) context.terminal.line(`${created ? "submitted" : "taken up again:"} ${spec.name}`);
  if (flags.watch === false) {
    if (json) context.terminal.json({ job: toJson(JobSchema, job), created });
    else context.terminal.line(`watch it with \`whet jobs watch ${spec.name}\``);
    return;
  }
  outcome.exitCode = (await watchToEnd(controller, job, flags, context)).exitCode;
}

/** Everything that can be judged before anything starts. */
async function prepare(file: string, flags: TrainFlags, context: CommandContext): Promise<Prepared> {
  const { document, code, nameIfNone } = await openJob(file, context.signal);
  applyAssignments(document, flags.set ?? []);
  readAlgorithmModule(document, jobFolder(file));
  if (flags.model !== undefined)
    setPath(document, ["model", "path"], isArtifact(flags.model) ? flags.model : resolve(flags.model));
  else useRuntimesModel(document, flags, context);
  const isHere = flags.model !== undefined && !isArtifact(flags.model) && !isAbsolute(flags.model);
  const remote = !isHere && isRemoteModel(document, context.environment);
  nameIfNone();
  const spec = readJobSpec(document, jobFolder(file));
  refuseUnwatched(flags, context);
  if (flags.tensorboard !== undefined) checkLogFolder(flags.tensorboard);
  if (!remote) await checkUnlessRuntimes(spec.model?.path, flags, context);
  return { spec, code };
}

/** The model that the runtime started with was checked then, or is (or will be) its own making. */
async function checkUnlessRuntimes(
  path: string | undefined,
  flags: TrainFlags,
  context: CommandContext,
): Promise<void> {
  if (path === undefined || path === "" || path === runtimeModel(flags.data, context)) return;
  await checkModel(path, "model.path", context.signal);
}

/** A job that names no model trains the one that the local runtime started with, or is started with for it. */
function useRuntimesModel(document: Record<string, unknown>, flags: TrainFlags, context: CommandContext): void {
  if ("model" in document) return;
  const model = runtimeModel(flags.data, context);
  if (model === undefined) return;
  setPath(document, ["model", "path"], model);
  if (flags.json !== true) context.terminal.line(`model: ${model} (the runtime's own)`);
}

/** Who does not watch has nothing to write; and a runtime of this command's own would end as soon as the job is submitted. */
function refuseUnwatched(flags: TrainFlags, context: CommandContext): void {
  if (flags.watch === false && flags.tensorboard !== undefined) {
    const reason = "is written while the job is watched; without that, `whet jobs metrics` writes it";
    throw badInput([{ path: "--tensorboard", reason }]);
  }
  if (flags.watch !== false || findController(flags.data, context.environment) !== undefined) return;
  throw badInput([{ path: "--no-watch", reason: "no runtime is up; start one first with `whet up --detach`" }]);
}
