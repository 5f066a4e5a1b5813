// SPDX-License-Identifier: Apache-2.0
// TrainingJobs on the cluster of KUBECONFIG, with the real services beside the test on this machine.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Stored } from "@whetstone/kube";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import {
  TRAINING_JOBS,
  type TrainingJob,
  type TrainingJobSpec,
} from "../../services/controller/src/operator/training-job/schema.ts";
import { installDefinitions, kubeconfigOf, openTestCluster, removeRights, type TestCluster } from "./cluster.ts";
import { type LocalRuntime, smallJob, startLocalRuntime } from "./local-runtime.ts";

const LONG = { timeoutMs: 90_000, intervalMs: 100 };

export class KubeJobs implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly runtime: LocalRuntime;
  readonly client: RpcClient<typeof JobService>;
  /** For the test's own files; it goes at the end. */
  readonly folder: string;

  private constructor(cluster: TestCluster, runtime: LocalRuntime, folder: string) {
    this.cluster = cluster;
    this.runtime = runtime;
    this.client = createClient(JobService, runtime.address("controller"));
    this.folder = folder;
  }

  /** @param values  of the chart, for the controller's rights: it gets those that the chart gives it, no more */
  static async start(name: string, values: readonly string[] = []): Promise<KubeJobs> {
    installDefinitions();
    const cluster = await openTestCluster(name);
    const folder = mkdtempSync(join(tmpdir(), "whetstone-jobs-"));
    const own = process.env["KUBECONFIG"];
    process.env["KUBECONFIG"] = kubeconfigOf("controller", cluster.namespace, folder, values);
    Object.assign(process.env, {
      ...{ WHETSTONE_KUBE: "true", WHETSTONE_KUBE_NAMESPACE: cluster.namespace, WHETSTONE_LEASE: "test-controller" },
    });
    const runtime = await startLocalRuntime();
    process.env["KUBECONFIG"] = own;
    return new KubeJobs(cluster, runtime, folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { kube, namespace } = this.cluster;
    for (const { metadata } of await kube.list(TRAINING_JOBS)) await kube.delete(TRAINING_JOBS, metadata.name);
    await waitFor(async () => (await kube.list(TRAINING_JOBS)).length === 0, LONG);
    await this.client[Symbol.asyncDispose]();
    await this.runtime[Symbol.asyncDispose]();
    removeRights(namespace);
    await this.cluster[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true });
  }

  /** As `kubectl apply` of a small job. */
  async apply(name: string, steps: number, spec: Partial<TrainingJobSpec>): Promise<void> {
    const { name: _, ...job } = smallJob(name, this.runtime.model, { steps });
    const metadata = { name, namespace: this.cluster.namespace };
    const { apiVersion, kind } = TRAINING_JOBS;
    const made = { apiVersion, kind, metadata, spec: { ...spec, job } };
    const { code, text } = await this.cluster.kubectl(["apply"], made);
    if (code !== 0) throw new Error(text);
  }

  async patch(name: string, spec: JsonObject): Promise<void> {
    await this.cluster.kube.patch(TRAINING_JOBS, name, { spec });
  }

  async get(name: string): Promise<Stored<TrainingJob> | undefined> {
    return await this.cluster.kube.get(TRAINING_JOBS, name);
  }

  async step(name: string): Promise<number> {
    return (await this.get(name))?.status?.step ?? 0;
  }

  /** Waits for a state, or for a condition as `Type=Status/Reason`. */
  async is(name: string, wanted: string): Promise<void> {
    const [type = "", value] = wanted.split("=");
    const look = async (): Promise<string | undefined> => {
      const { status } = (await this.get(name)) ?? {};
      const found = status?.conditions?.find((one) => one.type === type);
      return value === undefined ? status?.state : `${found?.status}/${found?.reason}`;
    };
    await waitFor(async () => (await look()) === (value ?? type), LONG).catch(async (cause: unknown) => {
      throw new Error(`${name} is not ${wanted}, but ${await look()}`, { cause });
    });
  }
}
