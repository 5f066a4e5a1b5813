// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";

// What a process that was killed leaves behind carries its name: its id and the time it started, since ids are given again.

const PREFIX = "whetstone-sandbox";
const NAME = new RegExp(`^${PREFIX}-(\\d+)-(\\d+)-\\d+(-[0-9a-f]+)?$`, "mu");

let made = 0;

/** A name for something of ours. */
export function ownedName(): string {
  made += 1;
  return `${PREFIX}-${process.pid}-${startOf(process.pid)}-${made}`;
}

/** @param text  a name, or an argument a line */
export function isAbandoned(text: string): boolean {
  const [, pid, start] = NAME.exec(text) ?? [];
  return pid !== undefined && startOf(Number(pid)) !== start;
}

/** In clock ticks after the machine's start; undefined: there is no such process. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
