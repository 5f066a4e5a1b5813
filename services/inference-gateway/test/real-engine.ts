// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { ROOT } from "./harness.ts";

export interface RealEngine extends AsyncDisposable {
  readonly url: string;
  /** Sends a control request; its JSON, if any. */
  readonly control: (path: string, body?: object) => Promise<unknown>;
}

/** The embedded PyTorch engine, as a process of its own, with a label. */
export async function startRealEngine(model: string, label: string): Promise<RealEngine> {
  const env = {
    ...process.env,
    PYTHONPATH: join(ROOT, "python-trainer/src"),
    OMP_NUM_THREADS: "1",
    OMP_WAIT_POLICY: "PASSIVE",
  };
  const args = ["-m", "whetstone_engine", "--model", model, "--port", "0", "--device", "cpu"];
  const child = spawn(join(ROOT, ".venv/bin/python"), args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const url = await listeningUrl(child.stderr);
  const control = async (path: string, body?: object): Promise<unknown> => {
    const response = await fetch(url + path, {
      method: "POST",
      body: JSON.stringify(body ?? {}),
      headers: { "content-type": "application/json" },
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: HTTP ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
  await control("/update_weight_version", { new_version: label });
  const stop = async (): Promise<void> => {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  };
  return { url, control, [Symbol.asyncDispose]: stop };
}

/** Waits for the log line that names the port; goes on reading, so that the engine never blocks on a full pipe. */
function listeningUrl(stream: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: stream });
    const seen: string[] = [];
    lines.on("line", (line) => {
      seen.push(line);
      const port = /listening/.test(line) ? /"port":\s*(\d+)/.exec(line)?.[1] : undefined;
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
    });
    lines.on("close", () => {
      reject(new Error(`the engine ended:\n${seen.join("\n")}`));
    });
  });
}
