// SPDX-License-Identifier: Apache-2.0
import { before, strip, words } from "../python-text.ts";
import type { LogParser, TestStatus } from "../test-status.ts";

// Logs of Django's own runner, "test_a (tests.B) ... ok", as SWE-bench 5.0.2 reads them: what the tests print gets in between.

const PASSES = [" ... ok", " ... OK", " ...  OK"];
const MIGRATION = "Applying sites.0002_alter_domain_unique...test_no_migrations";
const VERSION = "--version is equivalent to version";

export const parseDjango: LogParser = (log) => {
  const statuses = new Map<string, TestStatus>();
  let previous: string | undefined;
  for (const raw of log.split("\n")) {
    const line = strip(raw);
    if (line.includes(VERSION)) statuses.set(VERSION, "PASSED");
    if (line.includes(" ... ")) previous = before(line, " ... ");
    noteEnd(line, statuses);
    noteHeading(line, statuses);
    if (line.startsWith("ok") && previous !== undefined) statuses.set(previous, "PASSED");
  }
  for (const name of interrupted(log)) statuses.set(name, "PASSED");
  return statuses;
};

function noteEnd(line: string, statuses: Map<string, TestStatus>): void {
  const pass = PASSES.find((suffix) => line.endsWith(suffix));
  if (pass !== undefined) {
    const own = line.startsWith(MIGRATION) ? strip(line.slice(line.indexOf("...") + 3)) : line;
    const at = own.lastIndexOf(pass);
    statuses.set(at < 0 ? own : own.slice(0, at), "PASSED");
  }
  if (line.includes(" ... skipped")) statuses.set(before(line, " ... skipped"), "SKIPPED");
  if (line.endsWith(" ... FAIL")) statuses.set(before(line, " ... FAIL"), "FAILED");
  if (line.endsWith(" ... ERROR")) statuses.set(before(line, " ... ERROR"), "ERROR");
}

/** "FAIL: test_a (tests.B)", above a trace. */
function noteHeading(line: string, statuses: Map<string, TestStatus>): void {
  const [, name] = words(line);
  if (name === undefined) return;
  if (line.startsWith("FAIL:")) statuses.set(name, "FAILED");
  if (line.startsWith("ERROR:")) statuses.set(name, "ERROR");
}

const MESSAGE = /^(.*?)\s\.\.\.\s(?:Internal Server Error: \/.*\/|System check identified no issues \(0 silenced\))$/su;
const MAX_LINE = 10_000;

/** Tests whose "ok" stands on a line of its own, behind one of three messages. */
function interrupted(log: string): string[] {
  const lines = log.split("\n");
  const told = lines.filter((line, i) => lines[i + 1] === "ok" && line.length <= MAX_LINE);
  const names = told.flatMap((line) => MESSAGE.exec(line)?.[1] ?? []);
  return [...names, ...silenced(log)];
}

const TESTING = / \.\.\. Testing against Django installed in /gu;
const SILENCED = / silenced\)\.\nok(?![^\n])/gu;

/** From its name to the first end that follows, however many lines lie between. By hand, so that no log takes long. */
function silenced(log: string): string[] {
  const names: string[] = [];
  let at = 0;
  for (;;) {
    TESTING.lastIndex = at;
    const begin = TESTING.exec(log);
    if (begin === null) return names;
    SILENCED.lastIndex = TESTING.lastIndex;
    const end = SILENCED.exec(log);
    if (end === null) return names;
    const line = log.lastIndexOf("\n", begin.index) + 1;
    names.push(log.slice(Math.max(line, at), begin.index));
    at = SILENCED.lastIndex;
  }
}
