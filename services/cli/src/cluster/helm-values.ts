// SPDX-License-Identifier: Apache-2.0
/** What helm says of values that it, the chart's schema or one of its templates refuses. */
import type { Violation } from "../cli-error.ts";

/** "- engine.replicas: Invalid type…" up to Helm 3.17, "- at '/engine/replicas': got string…" since. */
const OF_SCHEMA = /^- (?:at '([^']*)': |([^:\s]+): )(.+)$/gm;
const SCHEMA = /values don't meet the specifications of the schema/;
/** Templates refuse by `fail` with "path: reason". */
const OF_TEMPLATE = /execution error at \([^)]*\): (?:([\w.]+): )?([^\n]+)/;
/** Options that helm itself cannot read. */
const OF_OPTION = /^(failed (?:to parse|parsing) (\S+?)(?: data)?:? .*|open .*: no such file or directory)$/m;

/** Empty: it is not about values. */
export function refusedValues(said: string): Violation[] {
  if (SCHEMA.test(said))
    return [...said.matchAll(OF_SCHEMA)].map(([, pointer, path, reason = ""]) => ({
      path: pathOf(pointer, path),
      reason,
    }));
  const [, path, reason] = OF_TEMPLATE.exec(said) ?? [];
  if (reason !== undefined) return [{ path: path ?? "values", reason }];
  const [line] = OF_OPTION.exec(said) ?? [];
  return line === undefined ? [] : [{ path: "values", reason: line }];
}

function pathOf(pointer: string | undefined, path: string | undefined): string {
  return pointer?.split("/").filter(Boolean).join(".") || (path === "(root)" ? "" : path) || "values";
}
