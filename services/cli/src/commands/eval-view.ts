// SPDX-License-Identifier: Apache-2.0
/** Shows an evaluation while it runs: redrawn on a terminal, a line now and then elsewhere, nothing with --json. */
import type { EvaluationEvents } from "../evaluation/evaluation-watch.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { EvalProgress } from "../evaluation/eval-progress.ts";
import { phaseName } from "../terminal/watch-view.ts";

export interface EvalView extends EvaluationEvents {
  readonly close: () => void;
}

const REDRAW_MS = 200;
const LINE_EVERY_MS = 10_000;

export function evalView(progress: EvalProgress, terminal: Terminal, json: boolean): EvalView {
  if (json) return { ...counting(progress), lost: () => {}, close: () => {} };
  return terminal.isTty ? screenView(progress, terminal) : lineView(progress, terminal);
}

function counting(progress: EvalProgress): Pick<EvaluationEvents, "job" | "episode"> {
  return { job: (job) => progress.setJob(job), episode: (summary) => progress.add(summary) };
}

function screenView(progress: EvalProgress, terminal: Terminal): EvalView {
  const region = terminal.live();
  let notice = "";
  const draw = (): void =>
    region.draw([...progress.screen(terminal.columns(), terminal.paint), ...(notice ? [notice] : [])]);
  const timer = setInterval(draw, REDRAW_MS);
  return {
    ...counting(progress),
    job: (job) => {
      progress.setJob(job);
      notice = "";
    },
    lost: (error) => void (notice = terminal.paint("yellow", `${error.message}; trying again …`)),
    close: () => {
      clearInterval(timer);
      draw();
      region.done();
    },
  };
}

function lineView(progress: EvalProgress, terminal: Terminal): EvalView {
  let [phase, told] = ["", 0];
  const tell = (): void => {
    if (progress.played > told) terminal.line(progress.line());
    told = progress.played;
  };
  const timer = setInterval(tell, LINE_EVERY_MS);
  return {
    ...counting(progress),
    job: (job) => {
      progress.setJob(job);
      const text = [phaseName(job), job.status?.reason, job.status?.message].filter(Boolean).join("  ");
      if (text !== phase) terminal.line(text);
      phase = text;
    },
    lost: (error) => terminal.line(`${error.message}; trying again …`),
    close: () => {
      clearInterval(timer);
      tell();
    },
  };
}
