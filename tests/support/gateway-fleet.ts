// SPDX-License-Identifier: Apache-2.0
// Gateways and engines as processes of their own, without the other services; what engines are asked and answer is written down
// on the way to them.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { freePort } from "@whetstone/testkit";

const ROOT = resolve(import.meta.dirname, "../..");
const READY_MS = 180_000;

/** What an engine was asked once, and what it sampled, by its own words. */
export interface Attempt {
  readonly requestId: string;
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  /** Of each token. */
  readonly labels: readonly string[];
}

export interface LoggedEngine extends AsyncDisposable {
  /** Where gateways reach it: what passes here is logged. */
  readonly url: string;
  readonly controlUrl: string;
  kill(): void;
}

/** The PyTorch engine. @param log  gets each answer as it ends */
export async function startLoggedEngine(model: string, log: (attempt: Attempt) => void): Promise<LoggedEngine> {
  const port = await freePort();
  const args = ["-m", "whetstone_engine", "--model", model, "--port", String(port), "--served-model-name", "policy"];
  const child = startProcess(join(ROOT, ".venv/bin/python"), args, { PYTHONPATH: join(ROOT, "python-trainer/src") });
  await readyOf(child);
  const proxy = await startProxy(port, log);
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    controlUrl: `http://127.0.0.1:${port}`,
    kill: () => child.kill("SIGKILL"),
    async [Symbol.asyncDispose]() {
      proxy.closeAllConnections();
      proxy.close();
      await ended(child);
    },
  };
}

export interface GatewayProcess extends AsyncDisposable {
  readonly url: string;
  /** Of its FleetService. */
  readonly address: string;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** At the same ports. */
  restart(): Promise<void>;
}

export async function startGatewayProcess(): Promise<GatewayProcess> {
  const [http, grpc] = [await freePort(), await freePort()];
  const env = { WHETSTONE_HTTP_PORT: String(http), WHETSTONE_GRPC_PORT: String(grpc) };
  const begin = async (): Promise<ChildProcess> => {
    const started = startProcess(process.execPath, [join(ROOT, "services/inference-gateway/src/main.ts")], env);
    await readyOf(started);
    return started;
  };
  let child = await begin();
  return {
    url: `http://127.0.0.1:${http}`,
    address: `127.0.0.1:${grpc}`,
    kill: () => ended(child),
    restart: async () => {
      child = await begin();
    },
    [Symbol.asyncDispose]: () => ended(child),
  };
}

/** Passes everything on; where the engine breaks off, so does this. */
async function startProxy(port: number, log: (attempt: Attempt) => void): Promise<Server> {
  const server = createServer((near, answer) => {
    const { method, url: path, headers } = near;
    const far = request({ host: "127.0.0.1", port, method, path, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
      response.once("aborted", () => answer.destroy());
      if (path === "/inference/v1/generate") void Promise.all([asked, text(response)]).then(noted, () => undefined);
    });
    const noted = ([question, said]: [string, string]): void => {
      const attempt = attemptOf(question, said);
      if (attempt !== undefined) log(attempt);
    };
    const asked = text(near);
    near.pipe(far);
    far.once("error", () => answer.destroy());
    answer.once("close", () => far.destroy());
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return server;
}

interface Question {
  readonly request_id: string;
  readonly token_ids: number[];
}

interface Said {
  readonly choices?: {
    readonly token_ids: number[];
    readonly weight_versions: { readonly version: string; readonly start: number; readonly end: number }[];
  }[];
}

function attemptOf(question: string, said: string): Attempt | undefined {
  const { request_id: requestId, token_ids: promptIds } = JSON.parse(question) as Question;
  const choice = (JSON.parse(said) as Said).choices?.[0];
  if (choice === undefined) return undefined;
  const labels = choice.token_ids.map(
    (_, index) => choice.weight_versions.find(({ start, end }) => start <= index && index < end)?.version ?? "",
  );
  return { requestId, promptIds, ids: choice.token_ids, labels };
}

function startProcess(program: string, args: readonly string[], settings: Record<string, string>): ChildProcess {
  const env = { PATH: process.env["PATH"] ?? "", OMP_NUM_THREADS: "1", OMP_WAIT_POLICY: "PASSIVE", ...settings };
  return spawn(program, args, { env, stdio: ["ignore", "ignore", "pipe"] });
}

async function readyOf(child: ChildProcess): Promise<void> {
  let log = "";
  await new Promise<void>((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`not ready:\n${log}`)), READY_MS);
    child.stderr?.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      if (!/"event":\s*"(ready|listening)"/.test(log)) return;
      clearTimeout(timer);
      done();
    });
    child.once("exit", (code) => failed(new Error(`ended with ${code}:\n${log}`)));
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once("exit", done));
  child.kill("SIGKILL");
  await gone;
}
