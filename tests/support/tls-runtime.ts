// SPDX-License-Identifier: Apache-2.0
// All services as on a cluster with TLS: certificates by role, NATS with the chart's users. Started by hand, since `whet up` has
// no TLS: it stays on one machine's loopback.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort, startNats, type TestNats } from "@whetstone/testkit";
import { type Role, ROLES } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { tinyModel } from "./tiny-model.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PYTHON = join(ROOT, ".venv/bin/python");
const PYTHON_PATH = [join(ROOT, "python-trainer/src"), join(ROOT, "proto/gen/python")].join(":");
const READY_MS = 60_000;
const VALIDITY = { from: new Date(), days: 1 };

export interface TlsRuntime extends AsyncDisposable {
  readonly nats: TestNats;
  readonly model: string;
  readonly data: string;
  /** Folder of a role's certificate. */
  folder(role: Role): string;
  address(service: string): string;
  /** What a service has logged. */
  log(service: string): string;
}

export async function startTlsRuntime(): Promise<TlsRuntime> {
  const data = mkdtempSync(join(tmpdir(), "whetstone-tls-run-"));
  const authority = createAuthority(VALIDITY);
  const folder = (role: Role): string => join(data, "tls", role);
  // Agents check the gateway's address, as programs of others do; ours check roles.
  const namesOf = (role: Role): string[] => (role === "gateway" ? ["127.0.0.1"] : []);
  for (const role of ROLES) {
    writeTlsFolder(folder(role), authority.cert, issue(authority, role, namesOf(role), VALIDITY));
  }
  const model = tinyModel(join(data, "models/tiny"));
  const nats = await startNats({ configuration: natsConfiguration(folder("nats")) });
  const names = [
    "engine",
    "control",
    "trainer",
    "gateway",
    "agents",
    "fleet",
    "env-runner",
    "orchestrator",
    "controller",
  ];
  const port = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await freePort()] as const)));
  const at = (name: string): string => `127.0.0.1:${port[name]}`;
  const services = new Map<string, Service>();
  const start = (role: Role, command: readonly string[], env: Record<string, string> = {}): void => {
    const [program = "", ...args] = command;
    services.set(role, startService(program, args, { WHETSTONE_TLS_PATH: folder(role), ...env }));
  };
  const natsUrl = { WHETSTONE_NATS_URL: `tls://127.0.0.1:${nats.port}` };
  const node = (name: string): string[] => [process.execPath, join(ROOT, `services/${name}/src/main.ts`)];
  const python = (...args: string[]): string[] => [PYTHON, "-m", ...args];
  const engine = ["whetstone_engine", "--model", model, "--served-model-name", "policy", "--port", `${port["engine"]}`];
  start("engine", python(...engine));
  start("trainer", python("whetstone_trainer", "--port", `${port["trainer"]}`), natsUrl);
  start("gateway", node("inference-gateway"), {
    WHETSTONE_HTTP_PORT: `${port["gateway"]}`,
    WHETSTONE_AGENT_PORT: `${port["agents"]}`,
    WHETSTONE_GRPC_PORT: `${port["fleet"]}`,
    WHETSTONE_ENGINES: `e0=https://${at("engine")}`,
  });
  start("env-runner", node("env-runner"), { WHETSTONE_GRPC_PORT: `${port["env-runner"]}` });
  start("orchestrator", node("rollout-orchestrator"), {
    ...natsUrl,
    WHETSTONE_GRPC_PORT: `${port["orchestrator"]}`,
    WHETSTONE_GATEWAY_URL: `https://${at("gateway")}`,
    WHETSTONE_AGENT_GATEWAY_URL: `https://${at("agents")}`,
    WHETSTONE_ENV_ADDRESS: at("env-runner"),
    WHETSTONE_MAKE_STREAMS: "false",
  });
  start("controller", node("controller"), {
    ...natsUrl,
    WHETSTONE_GRPC_PORT: `${port["controller"]}`,
    WHETSTONE_FLEET_ADDRESS: at("fleet"),
    WHETSTONE_TRAINER_ADDRESS: at("trainer"),
    WHETSTONE_ENV_ADDRESS: at("env-runner"),
    WHETSTONE_ORCHESTRATOR_ADDRESS: at("orchestrator"),
    WHETSTONE_DATA_PATH: data,
  });
  const runtime: TlsRuntime = {
    nats,
    model,
    data,
    folder,
    address: at,
    log: (service) => services.get(service)?.log() ?? "",
    async [Symbol.asyncDispose]() {
      await Promise.all(services.values().map(({ child }) => stop(child)));
      await nats[Symbol.asyncDispose]();
      rmSync(data, { recursive: true, force: true });
    },
  };
  try {
    await Promise.all(services.values().map(({ ready }) => ready));
    return runtime;
  } catch (error) {
    await runtime[Symbol.asyncDispose]();
    throw error;
  }
}

function natsConfiguration(folder: string): string {
  const users = readFileSync(join(ROOT, "charts/whetstone/files/nats-users.conf"), "utf8");
  const file = (name: string): string => JSON.stringify(join(folder, name));
  const tls = `cert_file: ${file("tls.crt")}, key_file: ${file("tls.key")}, ca_file: ${file("ca.crt")}, verify_and_map: true`;
  return `tls { ${tls} }\nauthorization {\n${users}\n}`;
}

interface Service {
  readonly child: ChildProcess;
  readonly ready: Promise<void>;
  log(): string;
}

function startService(program: string, args: readonly string[], settings: Record<string, string>): Service {
  const env = { PATH: process.env["PATH"] ?? "", PYTHONPATH: PYTHON_PATH, OMP_NUM_THREADS: "1", ...settings };
  const child = spawn(program, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const ready = new Promise<void>((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`not ready: ${args.join(" ")}\n${log}`)), READY_MS);
    child.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      if (!/"event":\s*"(ready|listening)"|"message":\s*"listening"|listening/.test(log)) return;
      clearTimeout(timer);
      done();
    });
    child.once("exit", (code) => failed(new Error(`ended with ${code}: ${args.join(" ")}\n${log}`)));
  });
  ready.catch(() => undefined);
  return { child, ready, log: () => log };
}

function stop(child: ChildProcess): Promise<void> {
  return new Promise((done) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      done();
      return;
    }
    child.once("exit", () => {
      done();
    });
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), 5_000).unref();
  });
}
