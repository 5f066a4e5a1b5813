// SPDX-License-Identifier: Apache-2.0
import type { Condition, Stored } from "@whetstone/kube";
import { describe, expect, it } from "vitest";
import { placed, placementsOf, flavorsOf } from "./placement.ts";
import { activity, podsReadyChange, released, type Workload, workloadFacts, workloadOf } from "./workload.ts";
import type { TrainingJob } from "../training-job/schema.ts";

const condition = (type: string, status: boolean, reason: string): Condition => ({
  ...{ type, status: status ? "True" : "False", reason, message: `because ${reason}` },
  lastTransitionTime: "2026-01-01T12:00:00Z",
});

const workload = (
  over: Omit<Partial<Workload>, "metadata"> & { metadata?: object } = {},
  ...conditions: Condition[]
): Stored<Workload> => ({
  ...over,
  metadata: { name: "w", uid: "u", resourceVersion: "1", ...over.metadata },
  status: { conditions, ...over.status },
});

const podSets = [{ name: "all", template: {} }];
const job = (spec: Partial<TrainingJob["spec"]> = {}): Stored<TrainingJob> => ({
  metadata: { name: "fl", uid: "12345-6", resourceVersion: "1", creationTimestamp: "" },
  spec: { queueName: "gpu", podSets, job: {}, ...spec },
});

describe("Workload of a job", () => {
  it("has the job's pod sets and priority, and is queued", () => {
    const made = workloadOf(job({ priorityClassName: "high" }), 7);
    expect(made).toMatchObject({ metadata: { name: "trainingjob-fl-12345" }, spec: { queueName: "gpu", priority: 7 } });
    expect(made.spec).toMatchObject({ podSets: [{ name: "all", count: 1 }], priorityClassRef: { name: "high" } });
    expect(made.spec).not.toHaveProperty("active");
  });

  it("of a suspended job is not queued, and says why; resumed it is", () => {
    const made = workloadOf(job({ suspend: true }), undefined);
    expect(workloadFacts(workload(made))).toMatchObject({ active: false, suspended: true });
    expect(activity(true)).toEqual({
      metadata: { annotations: { "whetstone.dev/suspended": null } },
      spec: { active: true },
    });
    expect(workloadFacts(workload({ spec: { active: false } }))).toMatchObject({ active: false, suspended: false });
  });

  it("is not admitted while it is evicted, and tells why it waits rather than why it had to go", () => {
    const admitted = [condition("QuotaReserved", true, "Reserved"), condition("Admitted", true, "Admitted")];
    expect(workloadFacts(workload({}, ...admitted))).toMatchObject({ admitted: true, reserved: true });
    const evicted = condition("Evicted", true, "Preempted");
    const gone = workloadFacts(workload({}, ...admitted, evicted));
    expect(gone).toMatchObject({ admitted: false, reserved: true, evicted: "Preempted", message: "because Preempted" });
    const waits = workloadFacts(workload({}, condition("QuotaReserved", false, "Pending"), evicted));
    expect(waits.message).toBe("because Pending");
  });

  it("is queued again at once after a preemption only", () => {
    const requeued = (reason: string) => released(reason, "").find(({ type }) => type === "Requeued")?.status;
    expect(["Preempted", "NodeFailures", "Deactivated", "PodsReadyTimeout"].map(requeued)).toEqual([
      ...[true, true, false, false],
    ]);
  });
});

describe("PodsReady", () => {
  const change = (admitted: boolean, isReady: boolean, ...former: Condition[]) => {
    const conditions = admitted ? [condition("Admitted", true, "Admitted"), ...former] : former;
    const made = podsReadyChange(workloadFacts(workload({}, ...conditions)), isReady);
    return made && `${made.status}/${made.reason}`;
  };

  const cases: [name: string, admitted: boolean, isReady: boolean, former: Condition | undefined, told?: string][] = [
    ["waits for a start", true, false, undefined, "false/WaitForStart"],
    ["started", true, true, condition("PodsReady", false, "WaitForStart"), "true/Started"],
    ["lost", true, false, condition("PodsReady", true, "Started"), "false/WaitForRecovery"],
    ["still lost", true, false, condition("PodsReady", false, "WaitForRecovery")],
    ["back", true, true, condition("PodsReady", false, "WaitForRecovery"), "true/Recovered"],
    ["still back", true, true, condition("PodsReady", true, "Recovered")],
    ["not admitted any more", false, true, condition("PodsReady", true, "Started"), "false/WaitForStart"],
    ["never admitted", false, false, undefined],
  ];
  it.each(cases)("%s", (...[, admitted, isReady, former, expected]) => {
    expect(change(admitted, isReady, ...(former ? [former] : []))).toBe(expected);
  });
});

describe("placement", () => {
  const flavors = new Map([
    ["a100", { metadata: { name: "a100" }, spec: { nodeLabels: { gpu: "a100" }, tolerations: [{ key: "gpu" }] } }],
    ["cpu", { metadata: { name: "cpu" }, spec: { nodeLabels: { pool: "big" } } }],
  ]);
  const assignment = { name: "head", flavors: { "nvidia.com/gpu": "a100", cpu: "cpu", memory: "cpu" } };
  const admitted = (more: object = {}, podSet: object = {}) =>
    workload({
      spec: { podSets: [{ name: "head", ...podSet }] },
      status: { admission: { podSetAssignments: [{ ...assignment, ...more }] } },
    });

  it("is of the flavors that were given", () => {
    expect(flavorsOf(admitted())).toEqual(["a100", "cpu"]);
    expect(placementsOf(admitted(), flavors).get("head")).toEqual({
      labels: { "kueue.x-k8s.io/podset": "head" },
      annotations: { "kueue.x-k8s.io/workload": "w" },
      nodeSelector: { gpu: "a100", pool: "big" },
      tolerations: [{ key: "gpu" }],
      schedulingGates: [],
    });
  });

  it("names the queues, as far as a label can", () => {
    const long = "a".repeat(70);
    const of = (queueName: string, clusterQueue: string) => {
      const admission = { clusterQueue, podSetAssignments: [assignment] };
      return placementsOf(workload({ spec: { queueName }, status: { admission } }), flavors).get("head")?.labels;
    };
    const own = { "kueue.x-k8s.io/podset": "head" };
    expect(of("gpus", "all")).toEqual({
      ...own,
      ...{ "kueue.x-k8s.io/local-queue-name": "gpus", "kueue.x-k8s.io/cluster-queue-name": "all" },
    });
    expect(of("gpus.team", long)).toEqual(own);
  });

  it("leaves the node to Kueue where it has a topology", () => {
    const topologyAssignment = { levels: ["rack"] };
    const of = (podSet: object) => placementsOf(admitted({ topologyAssignment }, podSet), flavors).get("head");
    const required = of({ topologyRequest: { required: "rack" } });
    expect(required?.schedulingGates).toEqual([{ name: "kueue.x-k8s.io/topology" }]);
    expect(required?.annotations).toMatchObject({ "kueue.x-k8s.io/podset-required-topology": "rack" });
    expect(of({})?.annotations).toMatchObject({ "kueue.x-k8s.io/podset-unconstrained-topology": "true" });
  });

  it("takes over what admission checks want, and adds to the template without taking from it", () => {
    const update = { name: "head", annotations: { consume: "it" }, nodeSelector: { zone: "z" } };
    const { status, ...rest } = admitted();
    const checked = { ...rest, status: { ...status, admissionChecks: [{ podSetUpdates: [update] }] } };
    const template = {
      metadata: { labels: { mine: "1" } },
      spec: { nodeSelector: { arch: "arm64" }, tolerations: [{ key: "gpu" }, { key: "own" }], containers: [] },
    };
    expect(placed(template, placementsOf(checked, flavors).get("head"))).toEqual({
      metadata: {
        labels: { mine: "1", "kueue.x-k8s.io/podset": "head" },
        annotations: { "kueue.x-k8s.io/workload": "w", consume: "it" },
      },
      spec: {
        nodeSelector: { arch: "arm64", gpu: "a100", pool: "big", zone: "z" },
        tolerations: [{ key: "gpu" }, { key: "own" }],
        containers: [],
      },
    });
    expect(placed(template, undefined)).toBe(template);
  });
});
