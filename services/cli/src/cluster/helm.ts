// SPDX-License-Identifier: Apache-2.0
/** helm, as the user has it on the PATH. */
import { spawn } from "node:child_process";
import { once } from "node:events";

import { badInput, CliError } from "../cli-error.ts";
import { refusedValues } from "./helm-values.ts";

export interface Helm {
  /** Runs a command to its end. Answers its standard output. @throws CliError with what helm said. */
  run(...args: string[]): Promise<string>;
  /** `upgrade --install`: what the chart and the values say is so afterwards, whoever wrote it otherwise before. */
  apply(release: string, chart: string, namespace: string, ...flags: string[]): Promise<void>;
  has(release: string, namespace: string): Promise<boolean>;
  /** Renders the chart with these values, and changes nothing. @throws CliError (bad input) naming the values it refuses */
  check(release: string, chart: string, namespace: string, ...flags: string[]): Promise<void>;
  /** The same with what the cluster has: a value that an installed release cannot change is refused. */
  checkThere(release: string, chart: string, namespace: string, ...flags: string[]): Promise<void>;
}

/** `--all` of Helm 3 is not there in Helm 4. */
const ANY_STATE = ["--deployed", "--failed", "--pending", "--superseded", "--uninstalled", "--uninstalling"];

const NEEDS = "install helm 3.17 or newer (https://helm.sh/docs/intro/install), or put it on the PATH";

export function helmFor(context: string, environment: NodeJS.ProcessEnv, signal: AbortSignal): Helm {
  const run = async (...args: string[]): Promise<string> => {
    const child = spawn("helm", ["--kube-context", context, ...args], {
      env: environment,
      signal,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    const [code] = (await once(child, "close").catch((error: unknown) => {
      throw unable(error, signal);
    })) as [number | null];
    if (code === 0) return stdout;
    const said = sayings(stderr);
    const refused = refusedValues(said);
    if (refused.length > 0) throw badInput(refused, "BAD_VALUES");
    throw new CliError("HELM_FAILED", `helm ${args[0]} failed: ${said}`);
  };
  return {
    run,
    apply: async (release, chart, namespace, ...flags) => {
      // Helm 4 has the API server apply, which refuses what it would take from others unless told to; Helm 3 just does it.
      const isHelm3 = (await run("version", "--template", "{{.Version}}")).startsWith("v3");
      const force = isHelm3 ? [] : ["--server-side=true", "--force-conflicts"];
      await run("upgrade", "--install", release, chart, "--namespace", namespace, ...flags, ...force);
    },
    check: async (release, chart, namespace, ...flags) => {
      await run("template", release, chart, "--namespace", namespace, ...flags);
    },
    checkThere: async (release, chart, namespace, ...flags) => {
      // Objects are not compared with the definitions: those may be older than the chart, and are upgraded next.
      const dry = ["--dry-run=server", "--disable-openapi-validation"];
      await run("upgrade", "--install", release, chart, "--namespace", namespace, ...dry, ...flags);
    },
    has: async (release, namespace) => {
      const releases = await run("list", "--namespace", namespace, "--filter", `^${release}$`, "--short", ...ANY_STATE);
      return releases.trim() !== "";
    },
  };
}

function unable(error: unknown, signal: AbortSignal): CliError {
  if (signal.aborted) return new CliError("STOPPED", "stopped; run the same command again to go on");
  const { code, message } = error as NodeJS.ErrnoException;
  return new CliError("NO_HELM", code === "ENOENT" ? `helm is not there: ${NEEDS}` : `helm cannot be run: ${message}`);
}

/** Without helm's warnings about other things, such as the kubeconfig's file mode. */
function sayings(stderr: string): string {
  const lines = stderr.trim().split("\n");
  const telling = lines.filter((line) => line !== "" && !/^(WARNING|level=|walk\.go|W\d{4} |I\d{4} )/.test(line));
  return telling.join("\n").replace(/^Error: /, "");
}
