// SPDX-License-Identifier: Apache-2.0
// Which stages of CI run. Those that set up much take turns by day, and run whenever their files changed since they were
// last green. docs/STATUS.md holds when that was, in a table that `node tests/ci/record.ts` writes after a run.

/** A stage that does not run every time. */
export interface Stage {
  readonly name: string;
  /** The longest it may take; it is not begun when less time is left. */
  readonly minutes: number;
  /** It runs when a file below one of these has changed. */
  readonly paths: readonly string[];
}

const IMAGES = ["deploy/images", "package-lock.json", "python-trainer/requirements.txt"];

export const ROTATING = [
  {
    name: "e2e: every part and fault",
    minutes: 30,
    paths: [
      "tests/e2e",
      "charts",
      "services/controller/src",
      "services/libs/messaging/src",
      "services/cli/src/commands/install.ts",
      ...IMAGES,
    ],
  },
  {
    name: "kube",
    minutes: 25,
    paths: ["tests/kube", "tests/support", "charts", "deploy/crds", "services/libs/kube", "services/controller/src"],
  },
  {
    name: "containers",
    minutes: 15,
    paths: ["tests/faults/images.containers.test.ts", "tests/support", ...IMAGES],
  },
] as const satisfies readonly Stage[];

export type StageName = (typeof ROTATING)[number]["name"];

/** When a stage was last green, as docs/STATUS.md says. */
export interface LastGreen {
  readonly date: string;
  /** Abbreviated name of the commit that was tested. */
  readonly commit: string;
}

export interface Due {
  readonly name: StageName;
  /** Why it runs; undefined: it does not. */
  readonly because: string | undefined;
  readonly lastGreen: LastGreen | undefined;
}

/**
 * @param day  days since 1970, of today
 * @param lastGreen  by stage
 * @param changedSince  files that changed since a commit; undefined when the commit is not known here
 */
export function dueStages(
  day: number,
  lastGreen: ReadonlyMap<string, LastGreen>,
  changedSince: (commit: string) => readonly string[] | undefined,
): Due[] {
  return ROTATING.map(({ name, paths }, i) => {
    const green = lastGreen.get(name);
    return { name, lastGreen: green, because: reason(paths, day % ROTATING.length === i, green, changedSince) };
  });
}

function reason(
  paths: readonly string[],
  isItsDay: boolean,
  green: LastGreen | undefined,
  changedSince: (commit: string) => readonly string[] | undefined,
): string | undefined {
  if (!green) return "it was never recorded as green";
  const changed = changedSince(green.commit);
  if (!changed) return `the commit of its last green run, ${green.commit}, is not known here`;
  const file = changed.find((one) => paths.some((path) => one === path || one.startsWith(`${path}/`)));
  if (file !== undefined) return `${file} has changed since it was last green`;
  return isItsDay ? "it is its day" : undefined;
}

const HEADER = "| stage | last green | commit |";

/** Rows of the table in docs/STATUS.md. */
export function readLastGreen(status: string): Map<string, LastGreen> {
  const rows = tableRows(status).map((line) => line.split("|").map((cell) => cell.trim().replaceAll("`", "")));
  return new Map(rows.map(([, name = "", date = "", commit = ""]) => [name, { date, commit }]));
}

/** The page with the rows of these stages replaced. @throws when it has no such table */
export function writeLastGreen(status: string, greens: ReadonlyMap<string, LastGreen>): string {
  const all = new Map([...readLastGreen(status), ...greens]);
  const rows = [...all].map(([name, { date, commit }]) => `| ${name} | ${date} | \`${commit}\` |`);
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
