// SPDX-License-Identifier: Apache-2.0
/** Where npm finds our packages for a new project: they are in no registry, so a version alone would be refused. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { PACKAGES } from "./project.ts";
import type { Installation } from "../runtime/installation.ts";

export interface OwnPackages {
  /** What `dependencies` says of each, by name: a tarball relative to the project, else the version. */
  readonly specifiers: Record<string, string>;
  /** What has to be done before `npm install` can find them. Undefined: nothing. */
  readonly advice: string | undefined;
}

/** @param project  the new project's folder */
export function ownPackages(installation: Installation, project: string, version: string): OwnPackages {
  const tarballs = installation.kind === "package" ? installedFrom(installation.root) : packedIn(installation.root);
  const missing = PACKAGES.filter((name) => tarballs[name] === undefined);
  const specifier = (name: string): string => {
    const tarball = tarballs[name];
    return tarball === undefined ? `^${version}` : `file:${relative(project, tarball)}`;
  };
  return {
    specifiers: Object.fromEntries(PACKAGES.map((name) => [name, specifier(name)])),
    advice: missing.length === 0 ? undefined : adviceOf(installation, missing),
  };
}

function adviceOf({ kind, root }: Installation, missing: readonly string[]): string {
  const names = missing.join(" and ");
  if (kind === "checkout")
    return `${names}: in no registry. Run \`make pack\` in ${root} first, and then this command again`;
  return `${names}: in no registry. Name their tarballs under "dependencies" in package.json, as "file:<path>"`;
}

/** What `make pack` has made. */
function packedIn(root: string): Record<string, string> {
  const folder = join(root, ".whetstone", "packages");
  const tarball = (name: string): string | undefined => {
    const [newest] = globSync(`${name.replace("@", "").replace("/", "-")}-*.tgz`, { cwd: folder })
      .sort()
      .reverse();
    return newest && join(folder, newest);
  };
  return found(tarball);
}

/** The tarballs that npm installed this command from, as npm noted beside what it installed. */
function installedFrom(root: string): Record<string, string> {
  for (let folder = root; folder !== dirname(folder); folder = dirname(folder)) {
    const note = join(folder, "node_modules", ".package-lock.json");
    if (!existsSync(note)) continue;
    const { packages } = JSON.parse(readFileSync(note, "utf8")) as { packages: Record<string, { resolved?: string }> };
    return found((name) => {
      const path = packages[`node_modules/${name}`]?.resolved?.match(/^file:(.*\.tgz)$/)?.[1];
      return path !== undefined && existsSync(resolve(folder, path)) ? resolve(folder, path) : undefined;
    });
  }
  return {};
}

function found(tarball: (name: string) => string | undefined): Record<string, string> {
  return Object.fromEntries(
    PACKAGES.flatMap((name) => {
      const path = tarball(name);
      return path === undefined ? [] : [[name, path]];
    }),
  );
}
