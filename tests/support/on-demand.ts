// SPDX-License-Identifier: Apache-2.0
// An installation whose engines and trainer are there only while a job may run; the other services run beside the test.
import { chmodSync } from "node:fs";
import { type Kube, NAMESPACES, openKube, type Pod, PODS, type Stored } from "@whetstone/kube";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { INFERENCE_FLEETS } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { ON_DEMAND } from "../../services/controller/src/operator/on-demand/trainer-deployment.ts";
import { POD_TEMPLATES } from "../../services/controller/src/operator/pod-template.ts";
import {
  TRAINING_JOBS,
  type TrainingJob,
  type TrainingJobSpec,
} from "../../services/controller/src/operator/training-job/schema.ts";
import { installDefinitions, kubeconfigOf, removeRights } from "./cluster.ts";
import { setStage, type Stage } from "./controllers.ts";
import { fleetSpec, MODEL_TOOLS } from "./engine-fleet.ts";
import { smallJob } from "./local-runtime.ts";

export const LONG = { timeoutMs: 120_000, intervalMs: 100 };
/** Nothing is lost, and nothing is there twice. */
export const SOUND = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n, violations: [] };

export class OnDemandStage implements AsyncDisposable {
  readonly kube: Kube;
  readonly jobs: RpcClient<typeof JobService>;
  readonly #stage: Stage;

  private constructor(kube: Kube, stage: Stage, jobs: RpcClient<typeof JobService>) {
    this.kube = kube;
    this.#stage = stage;
    this.jobs = jobs;
  }

  /** The controller has the rights that the chart gives it, no more. */
  static async start(namespace: string): Promise<OnDemandStage> {
    installDefinitions();
    const kube = openKube({ logger: silentLogger, namespace });
    await kube.create(NAMESPACES, { metadata: { name: namespace } });
    const stage = await setStage(namespace, 0);
    // Pods run as another user.
    chmodSync(stage.data, 0o755);
    await kube.create(POD_TEMPLATES, trainerTemplate());
    await kube.create(INFERENCE_FLEETS, { metadata: { name: "f" }, spec: { ...fleetSpec(stage), onDemand: true } });
    const values = ["onDemand=true", "kueue.flavors=true", "kueue.priorityClasses=true"];
    const KUBECONFIG = kubeconfigOf("controller", namespace, stage.data, values);
    const settings = { KUBECONFIG, WHETSTONE_ON_DEMAND: "true", WHETSTONE_LEASE: "test-controller" };
    const { address } = await stage.startController("a", settings);
    return new OnDemandStage(kube, stage, createClient(JobService, address));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { kube } = this;
    await this.deleteJobs();
    await this.jobs[Symbol.asyncDispose]();
    await this.#stage[Symbol.asyncDispose]();
    await kube.delete(NAMESPACES, kube.namespace);
    removeRights(kube.namespace);
    kube[Symbol.dispose]();
  }

  async apply(name: string, steps: number, spec: Partial<TrainingJobSpec> = {}): Promise<void> {
    const { name: _, ...job } = smallJob(name, this.#stage.model, { steps, lag: 1 });
    await this.kube.create(TRAINING_JOBS, { metadata: { name }, spec: { ...spec, job } });
  }

  async deleteJobs(): Promise<void> {
    for (const { metadata } of await this.kube.list(TRAINING_JOBS))
      await this.kube.delete(TRAINING_JOBS, metadata.name);
    await waitFor(async () => (await this.kube.list(TRAINING_JOBS)).length === 0, LONG);
  }

  async get(name: string): Promise<Stored<TrainingJob> | undefined> {
    return await this.kube.get(TRAINING_JOBS, name);
  }

  async step(name: string): Promise<number> {
    return (await this.get(name))?.status?.step ?? 0;
  }

  async is(name: string, state: string): Promise<void> {
    await waitFor(async () => (await this.get(name))?.status?.state === state, {
      ...LONG,
      what: `${name} to be ${state}`,
    });
  }

  /** Engines and trainers, with those that are leaving. */
  async pods(): Promise<Stored<Pod>[]> {
    return await this.kube.list(PODS);
  }

  async noPods(): Promise<void> {
    await waitFor(async () => (await this.pods()).length === 0, { ...LONG, what: "all pods to be gone" });
  }
}

/** The trainer that trains runs beside the test; that its pods come and go is what is looked at. */
function trainerTemplate() {
  const labels = { "app.kubernetes.io/name": "t", "app.kubernetes.io/component": "trainer" };
  const container = {
    name: "trainer",
    image: MODEL_TOOLS,
    command: ["sleep", "3600"],
    imagePullPolicy: "IfNotPresent",
  };
  const spec = { terminationGracePeriodSeconds: 1, containers: [container] };
  const metadata = { name: "t-on-demand", labels: { [ON_DEMAND]: "trainer" } };
  return { metadata, template: { metadata: { labels }, spec } };
}
