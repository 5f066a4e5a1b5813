// SPDX-License-Identifier: Apache-2.0
// The stages of CI that take turns. Each adds at most about ten minutes to a run.

interface Turn {
  readonly name: string;
  /** What it adds to a run on a warm machine with two cores. */
  readonly minutes: number;
  /** It runs when one of its tests, or a file at or below one of these has changed; "folder/*": a file in that folder. */
  readonly paths: readonly string[];
}

/** Parts and faults of the end-to-end tests, in the same installation as the core. */
export interface E2eStage extends Turn {
  readonly parts: readonly string[];
  /** A regular expression. */
  readonly faults?: string;
  /** What it needs beside those that `make images` builds. */
  readonly images?: readonly string[];
}

/** Test files of a vitest project, or of pytest; of pytest with verl and Ray, which such a stage installs first. */
export interface FileStage extends Turn {
  readonly project: "unit" | "kube" | "containers" | "pytest" | "pytest with verl";
  readonly tests: readonly string[];
  /** What it needs beside the cluster, made before its tests, and what takes it away after them. */
  readonly setup?: readonly (readonly [command: string, ...args: string[]])[];
  readonly cleanup?: readonly [command: string, ...args: string[]];
  /** Variables that make them do more than on their ordinary run. */
  readonly environment?: Readonly<Record<string, string>>;
}

export type Stage = E2eStage | FileStage;

const IMAGES = ["deploy/images", "package-lock.json", "python-trainer/requirements.txt"];
const CONTROLLER = "services/controller/src";
const OPERATOR = `${CONTROLLER}/operator`;
const KUBE = ["tests/support", "services/libs/kube/src", `${CONTROLLER}/*`, `${OPERATOR}/*`];

/** Always done: it trains, and survives one fault of each kind. */
export const CORE: Omit<E2eStage, "name" | "paths"> = {
  parts: ["chart", "train", "apply", "faults"],
  faults: "^(pod deleted: controller|kill -9: engine|kill -9: trainer|NATS restarted|leader deleted)$",
  minutes: 7,
};

export const ROTATING: readonly Stage[] = [
  {
    name: "e2e: learning, own code, on demand",
    parts: ["code", "learn", "demand"],
    minutes: 7,
    paths: [
      "tests/e2e",
      `${CONTROLLER}/artifacts`,
      `${CONTROLLER}/datasets`,
      `${CONTROLLER}/loop`,
      `${OPERATOR}/on-demand`,
      "services/libs/modules/src",
      "services/libs/sandbox/src/process",
      "services/cli/src/modules",
      "python-trainer/src/whetstone_trainer",
      ...IMAGES,
    ],
  },
  {
    name: "kube: jobs",
    project: "kube",
    tests: [
      "deploy/crds/training-job.kube.test.ts",
      "tests/faults/fencing.kube.test.ts",
      "tests/integration/failing-job.kube.test.ts",
      "tests/integration/kueue.kube.test.ts",
      "tests/integration/training-job.kube.test.ts",
    ],
    minutes: 6,
    paths: [
      ...KUBE,
      "deploy/crds",
      `${CONTROLLER}/jobs`,
      `${CONTROLLER}/leading`,
      `${CONTROLLER}/loop`,
      `${OPERATOR}/training-job`,
      `${OPERATOR}/uninstall`,
      `${OPERATOR}/kueue`,
    ],
  },
  {
    name: "e2e: pods, processes, Helm",
    parts: [],
    faults: "^(pod deleted|kill -9|NATS restarted|helm|leader deleted|every pod evicted)",
    minutes: 6,
    paths: [
      "tests/e2e",
      "charts",
      "services/cli/src/commands/install.ts",
      "services/libs/messaging/src",
      `${CONTROLLER}/*`,
      `${CONTROLLER}/leading`,
    ],
  },
  {
    name: "kube: environments",
    project: "kube",
    tests: [
      "services/controller/src/operator/environment-pool/reconciler.kube.test.ts",
      "tests/kube/environment-kinds.kube.test.ts",
      "tests/kube/pool-evictions.kube.test.ts",
      "tests/kube/pools.kube.test.ts",
    ],
    minutes: 7,
    paths: [...KUBE, `${CONTROLLER}/pools`, `${OPERATOR}/environment-pool`, "services/env-runner/src"],
  },
  {
    name: "kube: sandboxes",
    project: "kube",
    tests: [
      "tests/kube/sandbox-escape.kube.test.ts",
      "tests/kube/sandbox-pools.kube.test.ts",
      "tests/kube/agent-sandbox.kube.test.ts",
      "tests/kube/repository-image.kube.test.ts",
    ],
    minutes: 7,
    paths: [
      ...KUBE,
      `${CONTROLLER}/sandboxes`,
      `${OPERATOR}/sandbox-pool`,
      "services/env-runner/src/sandboxes",
      "services/libs/sandbox/src/daemon",
      "services/libs/sandbox/src/kubernetes",
      "services/sandbox-daemon",
    ],
  },
  {
    name: "e2e: node, network, three NATS servers",
    parts: ["r3"],
    faults: "^(node |kubelet|API server|engine's network|NATS's network)",
    minutes: 9,
    paths: [
      "tests/e2e",
      "charts/whetstone/templates/nats.yaml",
      "services/libs/kube/src",
      "services/libs/messaging/src",
      "services/libs/rpc/src",
      `${OPERATOR}/*`,
    ],
  },
  {
    name: "kube: engines",
    project: "kube",
    tests: [
      "tests/kube/engine-departures.kube.test.ts",
      "tests/kube/fleet-scale.kube.test.ts",
      "tests/kube/inference-fleet.kube.test.ts",
      "tests/kube/on-demand-kueue.kube.test.ts",
      "tests/kube/on-demand.kube.test.ts",
      "tests/kube/others.kube.test.ts",
    ],
    minutes: 7,
    paths: [
      ...KUBE,
      `${CONTROLLER}/fleet`,
      `${OPERATOR}/inference-fleet`,
      `${OPERATOR}/kueue`,
      `${OPERATOR}/on-demand`,
      `${OPERATOR}/ray`,
    ],
  },
  {
    name: "e2e: volumes, certificates",
    parts: [],
    faults: "(volume full|optimizer file|^certificate deleted)",
    minutes: 4,
    paths: [
      "tests/e2e",
      `${CONTROLLER}/nats`,
      `${OPERATOR}/certificates`,
      "python-trainer/src/whetstone_trainer/weights",
      "services/libs/rpc/src",
    ],
  },
  {
    name: "e2e: sandboxes in pods",
    parts: ["sandboxes"],
    minutes: 6,
    paths: [
      "tests/e2e",
      `${CONTROLLER}/artifacts`,
      `${CONTROLLER}/sandboxes`,
      `${OPERATOR}/sandbox-pool`,
      "services/env-runner/src/sandboxes",
      "services/libs/sandbox/src/kubernetes",
      "services/sandbox-daemon",
    ],
  },
  {
    name: "kube: API server, chart, certificates",
    project: "kube",
    tests: [
      "services/cli/src/cluster/cluster.kube.test.ts",
      "services/libs/kube/src/faults.kube.test.ts",
      "services/libs/kube/src/kube.kube.test.ts",
      "tests/kube/certificates.kube.test.ts",
      "tests/kube/chart.kube.test.ts",
      "tests/kube/nats-cluster.kube.test.ts",
    ],
    minutes: 5,
    paths: [...KUBE, "charts", "services/cli/src/cluster", `${CONTROLLER}/nats`, `${OPERATOR}/certificates`],
  },
  {
    name: "one machine: full disk, damaged checkpoints, evaluation resumed",
    project: "unit",
    tests: [
      "tests/faults/damaged-checkpoint.test.ts",
      "tests/faults/full-disk.test.ts",
      "tests/faults/full-engine-disk.test.ts",
      "tests/integration/eval-resume.test.ts",
    ],
    minutes: 5,
    paths: [
      "tests/support",
      `${CONTROLLER}/fleet`,
      `${CONTROLLER}/nats`,
      `${CONTROLLER}/loop`,
      "python-trainer/src/whetstone_engine/weights",
      "python-trainer/src/whetstone_trainer/weights",
      "services/cli/src/commands/eval.ts",
      "services/cli/src/evaluation",
      "services/cli/src/runtime",
    ],
  },
  {
    name: "one machine: jobs over an object store",
    project: "unit",
    tests: ["tests/faults/object-store.test.ts"],
    minutes: 3,
    paths: [
      "tests/support",
      `${CONTROLLER}/fleet`,
      "python-trainer/src/whetstone_engine/weights",
      "python-trainer/src/whetstone_store",
      "python-trainer/src/whetstone_trainer/weights",
    ],
  },
  {
    name: "one machine: trainer killed at 50 random moments",
    project: "pytest",
    tests: ["python-trainer/tests/trainer/test_kills.py"],
    environment: { WHETSTONE_KILLS: "50" },
    minutes: 9,
    paths: [
      "python-trainer/tests/trainer/kill_run.py",
      "python-trainer/src/whetstone_trainer/backends",
      "python-trainer/src/whetstone_trainer/service",
      "python-trainer/src/whetstone_trainer/weights",
    ],
  },
  {
    name: "one machine: episodes in sandboxes",
    project: "unit",
    tests: ["tests/faults/sandboxed-episodes.test.ts"],
    environment: { WHETSTONE_SANDBOXED_EPISODES: "128" },
    minutes: 10,
    paths: [
      "services/libs/browser/src/pool",
      "services/libs/mcp/src",
      "services/libs/sandbox/src",
      "services/libs/swe/src",
      "python-trainer/src/whetstone_tasks",
      "tests/support/scripted-episodes.ts",
      "tests/support/unsteady-retriever.ts",
    ],
  },
  {
    name: "one machine: a sample of the tasks of repairing libraries",
    project: "unit",
    tests: ["tests/integration/swe-sample.test.ts"],
    environment: { WHETSTONE_TASKS_SAMPLE: "24" },
    minutes: 3,
    paths: ["examples/swe", "services/libs/swe/src", "services/cli/src/tasks", "python-trainer/src/whetstone_tasks"],
  },
  {
    name: "one machine: tasks of MiniWoB++ and of our sites by who knows them",
    project: "unit",
    tests: [
      "services/libs/browser/src/miniwob/oracles.test.ts",
      "services/libs/sites/src/sites.test.ts",
      "tests/integration/browser-job.test.ts",
    ],
    environment: { WHETSTONE_MINIWOB_SEEDS: "4", WHETSTONE_SITE_SEEDS: "4" },
    minutes: 6,
    paths: [
      "services/libs/browser",
      "services/libs/sites",
      "services/libs/sandbox/src/process",
      "python-trainer/miniwob-requirements.txt",
    ],
  },
  {
    name: "containers: sandboxes",
    project: "containers",
    tests: [
      "services/libs/sandbox/src/docker/docker-backend.containers.test.ts",
      "services/libs/sandbox/src/docker/escape.containers.test.ts",
      "tests/integration/container-episodes.containers.test.ts",
      "tests/integration/container-repository.containers.test.ts",
    ],
    minutes: 2,
    paths: [
      "services/env-runner/src/sandboxes",
      "services/libs/sandbox/src/daemon",
      "services/libs/sandbox/src/docker",
      "services/libs/sandbox/test-support",
      "services/sandbox-daemon",
    ],
  },
  {
    name: "containers",
    project: "containers",
    tests: ["tests/faults/images.containers.test.ts"],
    minutes: 5,
    paths: ["tests/support", ...IMAGES],
  },
  {
    name: "one machine: agents in Python",
    project: "unit",
    tests: ["tests/integration/any-agent/python-agents.test.ts"],
    setup: [["make", "setup-python-agents"]],
    environment: { WHETSTONE_PYTHON_AGENTS: "required" },
    minutes: 3,
    paths: ["deploy/local/setup-python-packages.sh", "services/inference-gateway/src", "tests/integration/any-agent"],
  },
  {
    name: "one machine: coding CLIs",
    project: "unit",
    tests: ["tests/integration/coding-clis/coding-clis.test.ts"],
    setup: [["make", "setup-coding-clis"]],
    environment: { WHETSTONE_CODING_CLIS: "required" },
    minutes: 4,
    paths: [
      "deploy/local/setup-coding-clis.sh",
      "deploy/local/setup-python-packages.sh",
      "services/inference-gateway/src/dialects",
      "services/inference-gateway/src/sessions",
      "services/libs/sdk/src/rollout",
      "tests/integration/any-agent/ten-turns.ts",
      "tests/integration/coding-clis",
    ],
  },
  {
    name: "kube: verl on KubeRay",
    project: "kube",
    tests: ["tests/kube/verl.kube.test.ts"],
    setup: [
      ["make", "images", "IMAGES=trainer-verl"],
      ["make", "kuberay"],
    ],
    cleanup: ["make", "kuberay", "KUBERAY=remove"],
    environment: { WHETSTONE_KUBERAY: "required" },
    minutes: 10,
    paths: [
      "deploy/kuberay",
      "charts/whetstone/templates/trainer-verl.yaml",
      "python-trainer/ray-head.sh",
      "python-trainer/verl.Dockerfile",
      "python-trainer/verl-requirements.txt",
      "python-trainer/src/whetstone_trainer/backends/verl",
      "python-trainer/src/whetstone_trainer/retrain.py",
      `${OPERATOR}/ray`,
      "tests/support/ray-jobs.ts",
    ],
  },
  {
    name: "one machine: trainer on verl and Ray",
    project: "pytest with verl",
    tests: ["python-trainer/tests/verl"],
    minutes: 10,
    paths: [
      "deploy/local/setup-verl.sh",
      "python-trainer/verl-requirements.txt",
      "python-trainer/tests/verl",
      "python-trainer/src/whetstone_trainer/algorithms",
      "python-trainer/src/whetstone_trainer/backends",
    ],
  },
  {
    name: "e2e: browsers in pods",
    parts: ["browsers"],
    images: ["env-runner-browser"],
    minutes: 8,
    paths: ["tests/e2e/browsers.ts", "services/env-runner/browser.Dockerfile", "services/libs/browser/src/chromium"],
  },
  {
    name: "one machine: several gateways",
    project: "unit",
    tests: ["tests/faults/gateways.test.ts", "tests/faults/gateways-under-load.test.ts"],
    environment: { WHETSTONE_GATEWAY_SWITCHES: "10" },
    minutes: 6,
    paths: [
      "services/controller/src/fleet",
      "services/inference-gateway/src/fleet",
      "services/inference-gateway/src/sessions",
      "services/rollout-orchestrator/src/play",
      "tests/support/gateway-fleet.ts",
    ],
  },
  {
    name: "one machine: other people's environments",
    project: "unit",
    tests: ["tests/integration/other-environments/other-environments.test.ts"],
    setup: [["make", "setup-other-environments"]],
    environment: { WHETSTONE_OTHER_ENVIRONMENTS: "required" },
    minutes: 6,
    paths: [
      "deploy/local/setup-python-packages.sh",
      "python-trainer/src/whetstone_env",
      "services/env-runner/src/environments/openenv.ts",
      "services/libs/openenv",
      "tests/integration/other-environments",
    ],
  },
];
