// SPDX-License-Identifier: Apache-2.0
/** Shows a job while it runs: a screen on a terminal, lines elsewhere, a JSON document per event with --json. */
import { toJson } from "@bufbuild/protobuf";
import type { Job, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase, JobSchema, StepRecordSchema, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";

import type { JobClient } from "../connect/clients.ts";
import type { WatchEvents } from "../jobs/job-watch.ts";
import { followJob } from "../jobs/job-watch.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { formatSeconds } from "../terminal/format.ts";
import { phaseName, stepLine, validationLine, watchScreen } from "../terminal/watch-view.ts";
import type { CommandContext } from "./context.ts";

/** Returns the finished job; throws when interrupted. */
export async function watchJob(jobs: JobClient, name: string, json: boolean, context: CommandContext): Promise<Job> {
  const view = json
    ? jsonView(context.terminal)
    : context.terminal.isTty
      ? screenView(context.terminal)
      : lineView(context.terminal);
  try {
    const job = await followJob(jobs, name, view, context.signal);
    view.finished(job);
    return job;
  } finally {
    view.close();
  }
}

interface View extends WatchEvents {
  readonly finished: (job: Job) => void;
  readonly close: () => void;
}

const REDRAW_MS = 200;

function screenView(terminal: Terminal): View {
  const region = terminal.live();
  const steps: StepRecord[] = [];
  const validations: ValidationResult[] = [];
  let job: Job | undefined;
  let notice = "";
  const draw = (): void => {
    const screen = watchScreen({ job, steps, validations }, terminal.columns(), terminal.paint);
    region.draw(notice ? [...screen, terminal.paint("yellow", notice)] : screen);
  };
  const timer = setInterval(draw, REDRAW_MS);
  return {
    job: (now) => {
      job = now;
      notice = "";
    },
    step: (step) => void steps.push(step),
    validation: (result) => void validations.push(result),
    lost: (error) => void (notice = `${error.message}; trying again …`),
    finished: (now) => {
      job = now;
      draw();
      terminal.line(finishLine(now, terminal));
    },
    close: () => {
      clearInterval(timer);
      region.done();
    },
  };
}

function lineView(terminal: Terminal): View {
  let job: Job | undefined;
  let phase = "";
  return {
    job: (now) => {
      job = now;
      const text = [phaseName(now), now.status?.reason, now.status?.message].filter(Boolean).join("  ");
      if (text !== phase) terminal.line(text);
      phase = text;
    },
    step: (step) => terminal.line(stepLine(step, job?.spec?.loop?.steps ?? 0)),
    validation: (result) => terminal.line(validationLine(result)),
    lost: (error) => terminal.line(`${error.message}; trying again …`),
    finished: (now) => terminal.line(finishLine(now, terminal)),
    close: () => {},
  };
}

function jsonView(terminal: Terminal): View {
  return {
    job: (job) => terminal.json({ event: "job", job: toJson(JobSchema, job) }),
    step: (step) => terminal.json({ event: "step", step: toJson(StepRecordSchema, step) }),
    validation: (result) => terminal.json({ event: "validation", validation: toJson(ValidationResultSchema, result) }),
    lost: (error) => terminal.json({ event: "lost", message: error.message }),
    finished: () => {},
    close: () => {},
  };
}

/** "lake succeeded after 2m31s; weights in …". */
export function finishLine(job: Job, terminal: Terminal): string {
  const good = job.status?.phase === JobPhase.SUCCEEDED;
  const name = terminal.paint("bold", job.spec?.name ?? "");
  const outcome = terminal.paint(good ? "green" : "red", phaseName(job).toLowerCase());
  const ending = good ? weightsText(job) : whyText(job);
  return `${name} ${outcome}${tookText(job)}${ending}`;
}

function tookText({ status }: Job): string {
  const [from, to] = [status?.startedAt?.seconds, status?.finishedAt?.seconds];
  return from === undefined || to === undefined ? "" : ` after ${formatSeconds(Number(to - from))}`;
}

function weightsText({ status }: Job): string {
  return status?.modelPath ? `; weights in ${status.modelPath}` : "";
}

function whyText({ status }: Job): string {
  return status?.message ? `: ${status.message}` : "";
}
