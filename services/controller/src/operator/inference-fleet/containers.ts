// SPDX-License-Identifier: Apache-2.0
/** Containers of an engine's pod: the engine, the proxy before vLLM, the one that makes a model. Pure. */
import { CONTROL_PORT, DATA_PORT, type FleetSpec, HEALTH_PORT } from "./schema.ts";

/** Where vLLM listens, for its proxy alone. */
const VLLM_PORT = 8100;
/** Where the leader of several nodes meets its workers. */
export const RENDEZVOUS_PORT = 29_500;

const RESTRICTED = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } };
const PORTS = [
  { name: "http", containerPort: DATA_PORT },
  { name: "control", containerPort: CONTROL_PORT },
  { name: "metrics", containerPort: HEALTH_PORT },
];
/** Alive, whether or not it serves: that is the gate's business. An engine that computes answers late. */
const HEALTH = { httpGet: { port: HEALTH_PORT, path: "/health" } };
const PROBES = {
  startupProbe: { ...HEALTH, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 3600 },
  readinessProbe: { ...HEALTH, periodSeconds: 5, timeoutSeconds: 5 },
  livenessProbe: { ...HEALTH, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
};

/** The tool publishes a whole folder or none; of several engines, the first one's stays. */
export function modelMaker(spec: FleetSpec, init: { readonly preset: string; readonly seed: number }): object {
  const make = `python -m whetstone_models init "$MODEL" --preset "$PRESET" --seed "$SEED"`;
  return {
    ...container(spec, "make-model", spec.template.image),
    command: ["sh", "-c", `test -f "$MODEL/config.json" || ${make} || test -f "$MODEL/config.json"`],
    env: [
      { name: "MODEL", value: spec.model.path },
      { name: "PRESET", value: init.preset },
      { name: "SEED", value: String(init.seed) },
    ],
    ...(spec.template.resources && { resources: spec.template.resources }),
    volumeMounts: mounts(spec, false),
  };
}

export function pytorchEngine(spec: FleetSpec): object {
  const { engine, model, template } = spec;
  return {
    ...container(spec, "engine", template.image),
    args: [
      "whetstone_engine",
      `--model=${model.path}`,
      "--host=0.0.0.0",
      `--port=${DATA_PORT}`,
      `--control-port=${CONTROL_PORT}`,
      `--health-port=${HEALTH_PORT}`,
      "--served-model-name=policy",
      `--device=${engine.device}`,
      `--dtype=${engine.dtype === "auto" ? "float32" : engine.dtype}`,
      `--threads=${engine.threads}`,
      ...(engine.args ?? []),
    ],
    env: [{ name: "OMP_NUM_THREADS", value: String(engine.threads) }, ...(template.env ?? [])],
    ports: PORTS,
    ...PROBES,
    ...(template.resources && { resources: template.resources }),
    volumeMounts: mounts(spec),
  };
}

/** Stock vLLM. Its control routes have no authentication, so it listens for its proxy alone. */
export function vllmEngine(spec: FleetSpec, part: "server" | "worker"): Record<string, unknown> {
  const { engine, model, template, nodesPerReplica } = spec;
  const group = [
    "--nnodes=$(LWS_GROUP_SIZE)",
    "--node-rank=$(LWS_WORKER_INDEX)",
    "--master-addr=$(LWS_LEADER_ADDRESS)",
  ];
  return {
    ...container(spec, "engine", template.image),
    command: ["vllm", "serve", model.path],
    args: [
      ...["--host=127.0.0.1", `--port=${VLLM_PORT}`, "--served-model-name=policy", `--dtype=${engine.dtype}`],
      ...["--generation-config=vllm", "--logprobs-mode=processed_logprobs", "--enable-prompt-tokens-details"],
      "--enable-scale-out",
      // Who has no HTTP refuses to hear of servers.
      part === "server" ? "--api-server-count=1" : "--headless",
      ...(nodesPerReplica > 1 ? [...group, `--master-port=${RENDEZVOUS_PORT}`] : []),
      ...(engine.args ?? []),
    ],
    // The development routes are what pauses it and loads weights.
    env: [
      { name: "VLLM_SERVER_DEV_MODE", value: "1" },
      { name: "HF_HUB_OFFLINE", value: "1" },
      { name: "VLLM_NO_USAGE_STATS", value: "1" },
      { name: "HOME", value: "/tmp" },
      { name: "OMP_NUM_THREADS", value: String(engine.threads) },
      // On a CPU each would bind itself to the node's first cores, all engines of it to the same.
      { name: "VLLM_CPU_OMP_THREADS_BIND", value: "nobind" },
      ...(template.env ?? []),
    ],
    ...PROBES,
    ...(template.resources && { resources: template.resources }),
    volumeMounts: mounts(spec),
  };
}

/** Starts before the engine and ends after it: an init container that goes on. */
export function vllmProxy(spec: FleetSpec): object {
  const { template } = spec;
  return {
    ...container(spec, "proxy", template.proxyImage ?? ""),
    restartPolicy: "Always",
    command: ["node", "dist/engine-proxy.js"],
    env: [
      { name: "WHETSTONE_HOST", value: "0.0.0.0" },
      { name: "WHETSTONE_DATA_PORT", value: String(DATA_PORT) },
      { name: "WHETSTONE_CONTROL_PORT", value: String(CONTROL_PORT) },
      { name: "WHETSTONE_HEALTH_PORT", value: String(HEALTH_PORT) },
      { name: "WHETSTONE_ENGINE_URL", value: `http://127.0.0.1:${VLLM_PORT}` },
      { name: "WHETSTONE_MODEL_PATH", value: spec.model.path },
      ...(template.env ?? []).filter((entry) => /^(WHETSTONE|AWS)_/.test(String((entry as { name?: unknown }).name))),
    ],
    ports: PORTS,
    // It listens once the engine's model is there: the engine starts after that.
    startupProbe: { tcpSocket: { port: HEALTH_PORT }, periodSeconds: 1, failureThreshold: 3600 },
    ...(template.proxyResources && { resources: template.proxyResources }),
    volumeMounts: mounts(spec),
  };
}

function mounts({ modelVolume, engine, template }: FleetSpec, readOnly = true): object[] {
  return [
    ...(modelVolume ? [{ name: "models", mountPath: modelVolume.mountPath, ...(readOnly && { readOnly }) }] : []),
    { name: "tmp", mountPath: "/tmp" },
    ...(engine.profile === "vllm" ? [{ name: "shm", mountPath: "/dev/shm" }] : []),
    ...(template.volumeMounts ?? []),
  ];
}

function container(spec: FleetSpec, name: string, image: string): object {
  const { imagePullPolicy } = spec.template;
  return { name, image, imagePullPolicy, securityContext: RESTRICTED };
}
