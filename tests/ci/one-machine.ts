// SPDX-License-Identifier: Apache-2.0
// Stages of CI that take turns though they need no more than this machine: their tests are the longest of those in `make test`.
import type { FileStage } from "./stage.ts";

export const LONGEST: readonly FileStage[] = [
  {
    name: "one machine: several jobs at once",
    project: "unit",
    tests: ["tests/faults/several-jobs.test.ts"],
    minutes: 4,
    paths: ["services/controller/src/fleet", "services/controller/src/loop"],
  },
  {
    name: "one machine: several gateways",
    project: "unit",
    tests: [
      "tests/faults/gateways.test.ts",
      "tests/faults/gateways-under-load.test.ts",
      "tests/faults/gateways-leaving.test.ts",
    ],
    environment: { WHETSTONE_GATEWAY_SWITCHES: "10" },
    minutes: 8,
    paths: [
      "services/controller/src/fleet",
      "services/inference-gateway/src/fleet",
      "services/inference-gateway/src/handover",
      "services/inference-gateway/src/sessions",
      "services/rollout-orchestrator/src/play",
      "tests/support/gateway-fleet.ts",
    ],
  },
  {
    name: "one machine: a served policy under faults",
    project: "unit",
    tests: ["tests/faults/serving.test.ts", "tests/faults/served-adapters.test.ts"],
    minutes: 6,
    paths: [
      "python-trainer/src/whetstone_engine/adapters",
      "services/controller/src/fleet",
      "services/controller/src/serving",
      "services/inference-gateway/src/served",
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
    name: "one machine: users' modules in processes of their own",
    project: "unit",
    tests: [
      "services/env-runner/src/host/module-environments.test.ts",
      "services/libs/modules/src/host-process.test.ts",
      "services/rollout-orchestrator/src/host/module-player.test.ts",
      "tests/integration/module.test.ts",
    ],
    minutes: 5,
    paths: [
      "services/cli/src/modules",
      "services/env-runner/src/host",
      "services/libs/modules/src",
      "services/libs/sandbox/src/process",
      "services/libs/sdk/src/define.ts",
      "services/rollout-orchestrator/src/host",
    ],
  },
  {
    name: "one machine: algorithms through all services",
    project: "unit",
    tests: [
      "tests/integration/multi-agent-training.test.ts",
      "tests/integration/own-algorithm.test.ts",
      "tests/integration/ppo.test.ts",
      "tests/integration/preferences.test.ts",
    ],
    minutes: 4,
    paths: ["python-trainer/src/whetstone_trainer", "services/controller/src/loop", "services/libs/sdk/src/define.ts"],
  },
  {
    name: "one machine: agents of the usual libraries trained",
    project: "unit",
    tests: ["tests/integration/any-agent/trained/trained.test.ts"],
    minutes: 4,
    paths: [
      "package-lock.json",
      "services/inference-gateway/src/dialects",
      "services/inference-gateway/src/sessions",
      "services/libs/sdk/src/define.ts",
      "tests/integration/any-agent/trained",
    ],
  },
  {
    name: "one machine: Math-Verify, recorded repairs and their hacks",
    project: "unit",
    tests: [
      "services/env-runner/src/math-verify/math-verify.test.ts",
      "services/libs/swe/src/instance/instance-episode.test.ts",
      "services/libs/swe/src/reward-hacks.test.ts",
      "tests/integration/npm-tasks.test.ts",
    ],
    minutes: 6,
    paths: [
      "python-trainer/math-verify-requirements.txt",
      "python-trainer/src/whetstone_tasks",
      "services/env-runner/src/math-verify",
      "services/libs/sandbox/src/process",
      "services/libs/swe/src",
    ],
  },
];
