// SPDX-License-Identifier: Apache-2.0
/** Writes what the sandboxes of a library begin with: of Python's `python -m whetstone_tasks.state`. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { LibraryPin, LibrarySources } from "@whetstone/swe";

import { CliError } from "../cli-error.ts";
import { runPython } from "../models/models-tool.ts";
import { INSTALLATION } from "../runtime/layout.ts";
import { writeNpmState } from "./npm-sources.ts";
import type { PackageCache } from "./package-cache.ts";

const TOOL = "whetstone_tasks";

export function librarySources(cache: PackageCache, signal: AbortSignal): LibrarySources {
  return {
    writeState: async (pin, archive) => {
      if (pin.suite.language === "javascript")
        return await writeNpmState(pin, archive, { cache, tool: await toolFiles(), signal });
      const folder = await mkdtemp(join(tmpdir(), "whetstone-tasks-"));
      try {
        const request = join(folder, "request.json");
        await writeFile(request, JSON.stringify(await requestOf(pin, archive, cache)));
        const { code, stdout, stderr } = await runPython(["-m", `${TOOL}.state`, request], signal);
        if (code === 0) return JSON.parse(stdout) as Awaited<ReturnType<LibrarySources["writeState"]>>;
        throw new CliError("TASKS_TOOL", `the state of ${pin.name} could not be made: ${stderr.trim().slice(-500)}`);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

async function requestOf(pin: LibraryPin, archive: string, cache: PackageCache): Promise<object> {
  const sdist = await cache.get(pin.sdist, "sdist");
  const wheels: string[] = [];
  for (const wheel of pin.wheels) wheels.push(await cache.get(wheel, "wheel"));
  const distInfo = `${pin.name.replaceAll("-", "_")}-${pin.version}`;
  const needed = [...pin.suite.packages, ...pin.suite.tests];
  return { archives: cache.folder, sdist, wheels, distInfo, tool: await toolFiles(), out: archive, needed };
}

/** Our programs that run in the sandboxes, by path. */
async function toolFiles(): Promise<Record<string, string>> {
  for (const folder of INSTALLATION.pythonSources) {
    const names = await readdir(join(folder, TOOL)).catch(() => []);
    const sources = names.filter((name) => name.endsWith(".py"));
    const read = async (name: string) => [`${TOOL}/${name}`, await readFile(join(folder, TOOL, name), "utf8")] as const;
    if (sources.length > 0) return Object.fromEntries(await Promise.all(sources.map(read)));
  }
  throw new CliError("TASKS_TOOL", `${TOOL} is not there: ${INSTALLATION.setupAdvice}`);
}
