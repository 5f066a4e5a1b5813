// SPDX-License-Identifier: Apache-2.0
import { before, words } from "../python-text.ts";
import { isTestStatus, type LogParser, TEST_STATUSES, type TestStatus } from "../test-status.ts";

// Logs of pytest with -rA: "PASSED tests/test_a.py::test_b", as SWE-bench 5.0.2 reads them, with its four shades.

/** `SKIPPED [3] tests/test_a.py:12: reason` counts tests, it names none. A wrapped "PASSED [100%]" is expected by two instances. */
function isSkipCount(status: string | undefined, name: string): boolean {
  return status === "SKIPPED" && /^\[\d+\]$/u.test(name);
}

function beginsWithStatus(line: string): boolean {
  return TEST_STATUSES.some((status) => line.startsWith(status));
}

type Named = (name: string) => string;

/** @param prepare  a line before it is read. @param nameOf  a test's name from the line's second word. */
function parseSummary(log: string, { prepare = same, nameOf = same }: { prepare?: Named; nameOf?: Named }) {
  const statuses = new Map<string, TestStatus>();
  for (const each of log.split("\n")) {
    const line = prepare(each);
    if (!beginsWithStatus(line)) continue;
    const [status, name] = words(line.startsWith("FAILED") ? line.replaceAll(" - ", " ") : line);
    if (name === undefined || isSkipCount(status, name)) continue;
    // "FAILED:" and the like are no status, and no test passes or fails by it.
    if (isTestStatus(status)) statuses.set(nameOf(name), status);
    else statuses.delete(nameOf(name));
  }
  return statuses;
}

const same: Named = (text) => text;

export const parsePytest: LogParser = (log) => parseSummary(log, {});

/** Of a parameter that is a path, only the last part is the same on every machine. */
export const parsePytestOptions: LogParser = (log) =>
  parseSummary(log, {
    nameOf: (name) => {
      const open = name.indexOf("[");
      const close = name.lastIndexOf("]");
      if (open < 0 || close < open) return name;
      const option = name.slice(open + 1, close);
      const isPath = option.startsWith("/") && !option.startsWith("//") && !option.includes("*");
      return `${name.slice(0, open)}[${isPath ? `/${option.split("/").at(-1)}` : option}]`;
    },
  });

export const parseMatplotlib: LogParser = (log) =>
  parseSummary(log, {
    prepare: (line) => line.replaceAll("MouseButton.LEFT", "1").replaceAll("MouseButton.RIGHT", "3"),
  });

const CONTROLS = /[\x01-\x1f]/gu;

/** Names may hold spaces; old versions of pytest put the status last. */
export const parsePytestV2: LogParser = (log) => {
  const statuses = new Map<string, TestStatus>();
  for (const raw of log.split("\n")) {
    const line = raw.replace(/\[(\d+)m/gu, "").replace(CONTROLS, "");
    if (beginsWithStatus(line)) {
      const [status, ...name] = words(line.startsWith("FAILED") ? before(line, " - ") : line);
      if (name.length === 0 || isSkipCount(status, name[0] ?? "")) continue;
      note(statuses, name, status);
    } else if (TEST_STATUSES.some((status) => line.endsWith(status))) {
      const parts = words(line);
      if (parts.length >= 2) note(statuses, parts.slice(0, -1), parts.at(-1));
    }
  }
  return statuses;
};

function note(statuses: Map<string, TestStatus>, name: readonly string[], status: string | undefined): void {
  if (isTestStatus(status)) statuses.set(name.join(" "), status);
  else statuses.delete(name.join(" "));
}

export const parseSeaborn: LogParser = (log) => {
  const statuses = new Map<string, TestStatus>();
  for (const line of log.split("\n")) {
    const [first, second] = words(line);
    if (first === undefined || second === undefined) continue;
    if (line.startsWith("FAILED")) statuses.set(second, "FAILED");
    else if (line.includes(" PASSED ")) {
      if (second === "PASSED") statuses.set(first, "PASSED");
    } else if (line.startsWith("PASSED")) statuses.set(second, "PASSED");
  }
  return statuses;
};
