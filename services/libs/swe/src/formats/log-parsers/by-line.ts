// SPDX-License-Identifier: Apache-2.0
import { strip } from "../python-text.ts";
import type { LogParser, StatusMap, TestStatus } from "../test-status.ts";

// Runners that write one line a test, as SWE-bench 5.0.2 reads them. A line is stripped before it is read.

/** Longer lines are no results: patterns need time that grows faster than the line. */
const MAX_LINE = 2000;

/** @returns name and status, or undefined for a line that says nothing. */
type LineReader = (line: string) => readonly [string, TestStatus] | undefined;

function byLine(read: LineReader): LogParser {
  return (log) => {
    const statuses = new Map<string, TestStatus>();
    for (const raw of log.split("\n")) {
      const line = strip(raw);
      const found = line.length > MAX_LINE ? undefined : read(line);
      if (found !== undefined) statuses.set(...found);
    }
    return statuses;
  };
}

/** The pattern has the groups `name` and `word`; a word that is not listed says nothing. */
function matching(pattern: RegExp, words: Readonly<Record<string, TestStatus>>): LineReader {
  const meaning = new Map(Object.entries(words));
  return (line) => {
    const { name, word } = pattern.exec(line)?.groups ?? {};
    const status = word === undefined ? undefined : meaning.get(word);
    return name === undefined || status === undefined ? undefined : [name, status];
  };
}

const PASS_FAIL_SKIP = { PASS: "PASSED", FAIL: "FAILED", SKIP: "SKIPPED" } as const;

export const parseGoTest = byLine(matching(/^--- (?<word>PASS|FAIL|SKIP): (?<name>.+) \(.+\)$/su, PASS_FAIL_SKIP));

export const parseCargo = byLine(
  matching(/^test\s+(?<name>\S+)\s+\.\.\.\s+(?<word>\w+)$/su, { ok: "PASSED", FAILED: "FAILED" }),
);

const readRedis = matching(/^\[(?<word>ok|err|skip|ignore)\]:\s(?<name>.+?)(?:\s\(\d+\s*m?s\))?$/su, {
  ok: "PASSED",
  err: "FAILED",
  skip: "SKIPPED",
  ignore: "SKIPPED",
});
/** A failed test's name is followed by its file. */
export const parseRedis = byLine((line) => {
  const found = readRedis(line);
  return found?.[1] === "FAILED" ? [found[0].replace(/\s+in\s+\S+$/su, ""), "FAILED"] : found;
});

export const parseJq = byLine(matching(/^(?<word>PASS|FAIL):\s(?<name>.+)$/su, PASS_FAIL_SKIP));

export const parseMicropython = byLine(
  matching(/^(?<word>pass|FAIL|skip)\s+(?<name>.+)$/su, { pass: "PASSED", FAIL: "FAILED", skip: "SKIPPED" }),
);

export const parseGoogleTest = byLine(
  matching(/^.*\[\s*(?<word>OK|FAILED)\s*\]\s(?<name>.*)\s\(.*\)$/su, { OK: "PASSED", FAILED: "FAILED" }),
);

export const parseAnt = byLine(
  matching(/^\[junit\]\s+\[(?<word>PASS|FAIL|ERR)\]\s+(?<name>.*)$/su, { ...PASS_FAIL_SKIP, ERR: "FAILED" }),
);

export const parseCucumber = byLine(matching(/^(?<name>.*) \.+(?<word>\.|F)/su, { ".": "PASSED", F: "FAILED" }));

export const parseRubyUnit = byLine(
  matching(/^(?:test: )?(?<name>.+):\s+(?<word>\.|E\b|F\b|O\b)/su, {
    ".": "PASSED",
    E: "FAILED",
    F: "FAILED",
    O: "SKIPPED",
  }),
);

export const parseRspec = byLine(
  matching(/^(?<name>.+) - (?<word>passed|failed)/su, { passed: "PASSED", failed: "FAILED" }),
);

export const parseJestJson = byLine(
  matching(/^\[(?<word>PASSED|FAILED)\]\s(?<name>.+)$/su, { PASSED: "PASSED", FAILED: "FAILED" }),
);

const readJest = matching(/^(?<word>✓|✕|○)\s(?<name>.+?)(?:\s\(\d+\s*m?s\))?$/su, {
  "✓": "PASSED",
  "✕": "FAILED",
  "○": "SKIPPED",
});
export const parseJest = byLine((line) => {
  const found = readJest(line);
  return found === undefined ? undefined : [strip(found[0]), found[1]];
});

export const parseVitest = byLine(
  matching(/^(?<word>✓|×|↓)\s(?<name>.+?)(?:\s(?:\d+\s*m?s?|\[skipped\]))?$/su, {
    "✓": "PASSED",
    "×": "FAILED",
    "↓": "SKIPPED",
  }),
);

export const parseTap = byLine(
  matching(/^(?<word>ok|not ok) \d+ (?<name>.+)$/su, { ok: "PASSED", "not ok": "FAILED" }),
);

/** Only failures are told. */
export const parseMarked = byLine((line) => {
  const name = /^\d+\)\s(.*)/su.exec(line)?.[1];
  return name === undefined ? undefined : [strip(name), "FAILED"];
});

/** "Test#name = 0.01 s = .": the last outcome behind the last "=", behind the last ". " before that. */
export const parseMinitest = byLine((line) => {
  const last = Math.max(...[".", "F", "E"].map((mark) => line.lastIndexOf(mark)));
  const equals = line.lastIndexOf("=", last - 1);
  const name = equals < 2 ? -1 : line.lastIndexOf(". ", equals - 2);
  if (name < 1) return undefined;
  return [line.slice(0, name), line[last] === "." ? "PASSED" : "FAILED"];
});

/** The suite's name stands above its tests. */
export const parsePhpUnit: LogParser = (log): StatusMap => {
  const meaning = { "✔": "PASSED", "✘": "FAILED", "↩": "SKIPPED" } as const;
  const statuses = new Map<string, TestStatus>();
  let suite = "None";
  for (const line of log.split("\n").filter(({ length }) => length <= MAX_LINE)) {
    const heading = /^([\p{L}\p{N}_].+) \(.+\)$/su.exec(line)?.[1];
    if (heading !== undefined) suite = heading;
    const [, mark, name] = (heading === undefined && /^\s*([✔✘↩])\s*(.*)$/su.exec(line)) || [];
    if (mark !== undefined) statuses.set(`${suite} > ${name}`, meaning[mark as keyof typeof meaning]);
  }
  return statuses;
};
