// SPDX-License-Identifier: Apache-2.0
import { statSync } from "node:fs";
import { dirname, join } from "node:path";

// Where we are root, sandboxes run as somebody else, who may not enter a home of root or another folder that only its owner enters.
// What lies in one is bound to a folder that all may enter, in a mount namespace that is the sandbox's alone.

/** A file or folder of the host that can be read inside, at the same place. */
export interface ReadablePath {
  readonly path: string;
  /** Where it is bound from. */
  readonly source: string;
}

/** @param stage  an empty folder that all may enter */
export function readablePaths(paths: readonly string[], stage: string): ReadablePath[] {
  const isRoot = process.getuid?.() === 0;
  return paths.map((path, i) => ({ path, source: isRoot && !canBeEntered(path) ? join(stage, String(i)) : path }));
}

const OTHERS_ENTER = 0o001;

function canBeEntered(path: string): boolean {
  const parent = dirname(path);
  return parent === path || ((statSync(parent).mode & OTHERS_ENTER) !== 0 && canBeEntered(parent));
}

/** Binds a list of path and source, up to "--", and becomes what comes after it. */
const BIND = `set -e
mount -t tmpfs -o mode=0755 tmpfs "$0"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "$2"; else : >"$2"; fi
  mount --rbind "$1" "$2"
  shift 2
done
shift
exec "$@"`;

/** What a command line begins with that is to see all sources. */
export function bindSources(readable: readonly ReadablePath[], stage: string): string[] {
  const moved = readable.filter(({ path, source }) => path !== source);
  if (moved.length === 0) return [];
  const list = moved.flatMap(({ path, source }) => [path, source]);
  return ["unshare", "--mount", "--propagation", "slave", "/bin/sh", "-c", BIND, stage, ...list, "--"];
}
