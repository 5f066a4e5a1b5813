// SPDX-License-Identifier: Apache-2.0
// kubectl and helm, as a user calls them: the cluster is KUBECONFIG's current context.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
export const CHART = resolve(ROOT, "charts/whetstone");
const COMMAND_MS = 600_000;
const FORWARD_MS = 15_000;

export interface CommandResult {
  readonly status: number;
  readonly stdout: string;
  readonly output: string;
}

/** Runs a program to its end. */
export function attempt(program: string, args: readonly string[], input?: string): CommandResult {
  const options = { encoding: "utf8", maxBuffer: 2 ** 28, timeout: COMMAND_MS, input: input ?? "" } as const;
  const { status, stdout, stderr, error } = spawnSync(program, args, options);
  return { status: error ? 1 : (status ?? 1), stdout, output: `${stdout}${stderr}${error?.message ?? ""}` };
}

/** As `attempt`; throws when it fails. Answers its standard output. */
export function command(program: string, args: readonly string[], input?: string): string {
  const { status, stdout, output } = attempt(program, args, input);
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}:\n${output}`);
  return stdout;
}

export function kubectl(...args: string[]): string {
  return command("kubectl", args);
}

export function helm(...args: string[]): string {
  return command("helm", args);
}

export interface Forward extends AsyncDisposable {
  /** "127.0.0.1:port". */
  readonly address: string;
}

/** A port of this machine that leads to a service of the cluster. */
export async function portForward(namespace: string, service: string, port: number): Promise<Forward> {
  const args = ["-n", namespace, "port-forward", "--address", "127.0.0.1", `service/${service}`, `:${port}`];
  const child = spawn("kubectl", args, { stdio: ["ignore", "pipe", "pipe"] });
  try {
    return { address: await forwarded(child), [Symbol.asyncDispose]: () => stop(child) };
  } catch (error) {
    await stop(child);
    throw error;
  }
}

function forwarded(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`no port-forward in ${FORWARD_MS} ms: ${text}`)), FORWARD_MS);
    const read = (chunk: Buffer): void => {
      text += chunk.toString();
      const address = /Forwarding from (127\.0\.0\.1:\d+)/.exec(text)?.[1];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(address);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code) => reject(new Error(`kubectl port-forward ended with ${code}: ${text}`)));
    child.once("error", reject);
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = new Promise((done) => child.once("exit", done));
  child.kill("SIGTERM");
  await gone;
}
