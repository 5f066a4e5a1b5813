// SPDX-License-Identifier: Apache-2.0
// Which stages of CI run. Those that set up much take turns by day, and run whenever their files changed since they were
// last green. docs/STATUS.md holds when that was, in a table that `node tests/ci/record.ts` writes after a run.
import { dirname } from "node:path";

import { ROTATING } from "./rotating.ts";
import type { Stage } from "./stage.ts";

/** When a stage was last green, as docs/STATUS.md says. */
export interface LastGreen {
  readonly date: string;
  /** Abbreviated name of the commit that was tested. */
  readonly commit: string;
}

export interface Due {
  readonly stage: Stage;
  /** Why it is to run; undefined: it is not. */
  readonly because: string | undefined;
  readonly lastGreen: LastGreen | undefined;
  /** Days until it is its day; 0: today. */
  readonly daysLeft: number;
}

type ChangedSince = (commit: string) => readonly string[] | undefined;

/**
 * @param day  days since 1970, of today
 * @param lastGreen  by stage
 * @param changedSince  files that changed since a commit; undefined when the commit is not known here
 */
export function dueStages(day: number, lastGreen: ReadonlyMap<string, LastGreen>, changedSince: ChangedSince): Due[] {
  return ROTATING.map((stage, i) => {
    const green = lastGreen.get(stage.name);
    const daysLeft = (ROTATING.length + i - (day % ROTATING.length)) % ROTATING.length;
    const because = reason(stage, green, changedSince) ?? (daysLeft === 0 ? "it is its day" : undefined);
    return { stage, lastGreen: green, because, daysLeft };
  });
}

function reason(stage: Stage, green: LastGreen | undefined, changedSince: ChangedSince): string | undefined {
  if (!green) return "it was never recorded as green";
  const changed = changedSince(green.commit);
  if (!changed) return `the commit of its last green run, ${green.commit}, is not known here`;
  const paths = "tests" in stage ? [...stage.tests, ...stage.paths] : stage.paths;
  const file = changed.find((one) => paths.some((path) => covers(path, one)));
  return file === undefined ? undefined : `${file} has changed since it was last green`;
}

function covers(path: string, file: string): boolean {
  return path.endsWith("/*") ? dirname(file) === dirname(path) : file === path || file.startsWith(`${path}/`);
}

/**
 * What of the due stages is done: those not green for the longest first, as long as they are through by the aim. Of those
 * that are equal the one whose day is nearest comes first, so that each has its turn even where nobody writes the record.
 * The first is done even past the aim, so that a slow day does not put all of them off.
 */
export function chooseStages(due: readonly Due[], minutesToAim: number, minutesToLimit: number): Stage[] {
  const chosen: Stage[] = [];
  let minutes = 0;
  const wanted = due.filter(({ because }) => because !== undefined);
  wanted.sort((a, b) => dateOf(a).localeCompare(dateOf(b)) || a.daysLeft - b.daysLeft);
  for (const { stage } of wanted) {
    if (minutes + stage.minutes > (chosen.length === 0 ? minutesToLimit : minutesToAim)) continue;
    chosen.push(stage);
    minutes += stage.minutes;
  }
  return chosen;
}

/** Never green sorts before every date. */
function dateOf({ lastGreen }: Due): string {
  return lastGreen?.date ?? "";
}

const HEADER = "| stage | last green | commit |";

/** Rows of the table in docs/STATUS.md. */
export function readLastGreen(status: string): Map<string, LastGreen> {
  const rows = tableRows(status).map((line) => line.split("|").map((cell) => cell.trim().replaceAll("`", "")));
  return new Map(rows.map(([, name = "", date = "", commit = ""]) => [name, { date, commit }]));
}

/** The page with the rows of these stages replaced, and without rows of others than stages. @throws when it has no such table */
export function writeLastGreen(status: string, greens: ReadonlyMap<string, LastGreen>): string {
  const all = new Map([...readLastGreen(status), ...greens]);
  const known = [...all].filter(([name]) => ROTATING.some((stage) => stage.name === name));
  const rows = known.map(([name, { date, commit }]) => `| ${name} | ${date} | \`${commit}\` |`);
  const lines = status.split("\n");
  const first = lines.indexOf(HEADER) + 2;
  lines.splice(first, tableRows(status).length, ...rows);
  return lines.join("\n");
}

function tableRows(status: string): string[] {
  const lines = status.split("\n");
  const header = lines.indexOf(HEADER);
  if (header === -1) throw new Error(`docs/STATUS.md has no table «${HEADER}»`);
  const rows = lines.slice(header + 2);
  const end = rows.findIndex((line) => !line.startsWith("|"));
  return end === -1 ? rows : rows.slice(0, end);
}
