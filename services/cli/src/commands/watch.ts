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
import { EventFolder } from "../metrics/event-folder.ts";
import type { MetricsPoint } from "../metrics/metrics-point.ts";
import { stepPoint, validationPoint } from "../metrics/metrics-point.ts";
import type { CommandContext } from "./context.ts";

export interface WatchFlags {
  readonly json?: boolean;
  /** Folder of event files, checked before. */
  readonly tensorboard?: string;
}

/** Returns the finished job; throws when interrupted. */
export async function watchJob(jobs: JobClient, job: Job, flags: WatchFlags, context: CommandContext): Promise<Job> {
  const { terminal, signal } = context;
  const view = flags.json === true ? jsonView(terminal) : terminal.isTty ? screenView(terminal) : lineView(terminal);
  using opened = new DisposableStack();
  opened.defer(view.close);
  const { tensorboard } = flags;
  const events = tensorboard === undefined ? view : opened.use(withEventFiles(view, job, tensorboard));
  const finished = await followJob(jobs, job.spec?.name ?? "", events, signal);
  view.finished(finished);
  return finished;
}

/** Event files beside what is shown. A job goes on although they cannot be written: that is said once. */
function withEventFiles(view: View, job: Job, tensorboard: string): WatchEvents & Disposable {
  let folder: EventFolder | undefined;
  let failed = false;
  const add = (point: MetricsPoint): void => {
    if (failed) return;
    try {
      (folder ??= new EventFolder(tensorboard, job)).add(point);
    } catch (error) {
      failed = true;
      const later = `\`whet jobs metrics ${job.spec?.name ?? ""} --tensorboard ${tensorboard}\` writes the rest later`;
      view.say(`${error instanceof Error ? error.message : String(error)}; ${later}`);
    }
  };
  return {
    ...view,
    step: (record) => (view.step(record), add(stepPoint(record))),
    validation: (result) => (view.validation(result), add(validationPoint(result))),
    [Symbol.dispose]: () => folder?.[Symbol.dispose](),
  };
}

interface View extends WatchEvents {
  readonly say: (text: string) => void;
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
    say: (text) => region.above(terminal.paint("yellow", text)),
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
    say: (text) => terminal.error(text),
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
    say: (text) => terminal.error(text),
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
