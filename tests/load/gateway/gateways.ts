// SPDX-License-Identifier: Apache-2.0
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { freePort, waitFor } from "@whetstone/testkit";
import { start } from "../../../services/libs/sdk/bench/processes.ts";
import { MODEL } from "./client.ts";
import type { Target } from "./work.ts";

const MAIN = join(import.meta.dirname, "../../../services/inference-gateway/src/main.ts");
const READY = /(\{[^\n]*"httpUrl"[^\n]*"event":"ready"[^\n]*\})/;
/** Of every token of engine-process.ts. */
const LABEL = "bench:1";
const START_MS = 60_000;

export interface Gateways extends AsyncDisposable {
  readonly target: Target;
}

interface Options {
  readonly engineUrl: string;
  /** Folder of the model. */
  readonly modelPath: string;
  readonly count: number;
  /** Of Node. */
  readonly flags?: readonly string[];
}

/** Ours, as `whet up --gateways COUNT` starts them, serving the policy. */
export async function startOurs({ engineUrl, modelPath, count, flags = [] }: Options): Promise<Gateways> {
  await using opened = new AsyncDisposableStack();
  const found: { url: string; pid: number }[] = [];
  for (let index = 0; index < count; index++) {
    const env = {
      WHETSTONE_HOST: "127.0.0.1",
      WHETSTONE_SUPERVISED: "1", // It ends with this process, however that ends.
      ...{ WHETSTONE_HTTP_PORT: "0", WHETSTONE_GRPC_PORT: "0", WHETSTONE_AGENT_PORT: "0" },
      WHETSTONE_ENGINES: `e0=${engineUrl}`,
    };
    const service = opened.use(await start(MAIN, [], READY, { env, flags }));
    const { httpUrl, grpcAddress } = JSON.parse(service.found) as { httpUrl: string; grpcAddress: string };
    await using fleet = createClient(FleetService, grpcAddress);
    await fleet.unfenceEngine({ id: "e0", policy: { policy: MODEL, policyVersion: 1n, label: LABEL, modelPath } });
    found.push({ url: httpUrl, pid: service.pid });
  }
  const stack = opened.move();
  return {
    target: {
      ...{ urls: found.map(({ url }) => url), pids: found.map(({ pid }) => pid) },
      ...{ prefix: "/s/{session}", headers: {} },
      close: { method: "GET", path: "/s/{session}/calls?close=true" },
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Portkey's gateway, which passes calls on. @param folder  where npm installed it */
export async function startPortkey(folder: string, engineUrl: string): Promise<Gateways> {
  const port = await freePort();
  const program = join(folder, "node_modules/@portkey-ai/gateway/build/start-server.js");
  const headers = {
    "x-portkey-provider": "openai",
    "x-portkey-custom-host": `${engineUrl}/v1`,
    authorization: "Bearer none",
  };
  const command = [process.execPath, program, "--headless", `--port=${port}`];
  return await startOther(command, { url: `http://127.0.0.1:${port}`, probe: "/", prefix: "", headers });
}

/** rLLM's gateway, which records what vLLM says of its tokens. @param folder  an environment of Python with it */
export async function startRllm(folder: string, engineUrl: string): Promise<Gateways> {
  const port = await freePort();
  const options = ["--host", "127.0.0.1", "--port", String(port), "--worker", `${engineUrl}/v1`, "--store", "memory"];
  const command = [join(folder, "bin/rllm-model-gateway"), ...options, "--log-level", "warning"];
  const where = { url: `http://127.0.0.1:${port}`, probe: "/health", prefix: "/sessions/{session}" };
  const other = await startOther(command, { ...where, headers: {} });
  return { ...other, target: { ...other.target, close: { method: "DELETE", path: "/sessions/{session}" } } };
}

interface Other extends Pick<Target, "prefix" | "headers"> {
  readonly url: string;
  /** Answers 200 when it is ready. */
  readonly probe: string;
}

async function startOther(command: readonly string[], { url, probe, prefix, headers }: Other): Promise<Gateways> {
  const child = spawn(command[0] as string, command.slice(1), { stdio: "ignore" });
  const answers = async (): Promise<boolean> => (await fetch(url + probe).catch(() => undefined))?.ok === true;
  const stop = async (): Promise<void> => {
    const ended = new Promise((done) => child.once("exit", done));
    if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await ended;
  };
  try {
    await waitFor(answers, { what: `${command[0]} to answer`, timeoutMs: START_MS });
  } catch (error) {
    await stop();
    throw error;
  }
  return { target: { urls: [url], pids: [child.pid as number], prefix, headers }, [Symbol.asyncDispose]: stop };
}

/** A model folder whose vocabulary is learned from our own Markdown. */
export function makeModel(folder: string, markdown: readonly string[]): void {
  const template = join(import.meta.dirname, "../../../services/inference-gateway/test/templates/qwen2.5.jinja");
  const args = [join(import.meta.dirname, "make_model.py"), folder, template, ...markdown];
  const { status, stderr } = spawnSync("python", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`no model: ${stderr}`);
}
