// SPDX-License-Identifier: Apache-2.0
// A queue of Kueue's for one test, on a cluster where Kueue runs.
import { type Condition, type Kube, type KubeObject, resource, type Stored } from "@whetstone/kube";
import { waitFor } from "@whetstone/testkit";
import {
  PRIORITY_CLASSES,
  RESOURCE_FLAVORS,
  type Workload,
  WORKLOADS,
} from "../../services/controller/src/operator/kueue/workload.ts";

interface ClusterQueue extends KubeObject {
  spec: object;
  status?: {
    conditions?: Condition[];
    flavorsReservation?: { resources: { name: string; total: string }[] }[];
  };
}

const V1BETA2 = WORKLOADS.apiVersion;
const CLUSTER_QUEUES = resource<ClusterQueue>(V1BETA2, "ClusterQueue", "clusterqueues", { namespaced: false });
const TOPOLOGIES = resource<KubeObject & { spec: object }>(V1BETA2, "Topology", "topologies", { namespaced: false });
const HOST = "kubernetes.io/hostname";
const LOCAL_QUEUES = resource<KubeObject & { spec: object }>(V1BETA2, "LocalQueue", "localqueues");

/** A job of `podSets` takes all that the queue has. */
export const CPUS = "2";
export const LABEL = "whetstone.dev/test-flavor";

export class Queue implements AsyncDisposable {
  readonly #kube: Kube;
  /** Of ClusterQueue, LocalQueue and ResourceFlavor alike. */
  readonly name: string;

  private constructor(kube: Kube, name: string) {
    this.#kube = kube;
    this.name = name;
  }

  static async isThere(kube: Kube): Promise<boolean> {
    return await kube.has(CLUSTER_QUEUES);
  }

  /**
   * Holds what comes until it is released.
   * @param nodeLabels  of nodes that are there; default: of none
   * @returns why there is none
   */
  static async open(kube: Kube, nodeLabels?: Readonly<Record<string, string>>): Promise<Queue | string> {
    const queue = new Queue(kube, kube.namespace);
    await kube.create(PRIORITY_CLASSES, { metadata: { name: queue.name }, value: 1000 });
    await queue.#make({ nodeLabels: nodeLabels ?? { [LABEL]: queue.name } }, "Hold");
    return (await queue.#isServed()) ? queue : "Kueue is installed on this cluster, and its controller does not run";
  }

  /** Its pods get a node each from Kueue. @param nodeLabels  of a node that is there */
  static async openWithTopology(kube: Kube, nodeLabels: Readonly<Record<string, string>>): Promise<Queue> {
    const queue = new Queue(kube, `${kube.namespace}-nodes`);
    await kube.create(TOPOLOGIES, { metadata: { name: queue.name }, spec: { levels: [{ nodeLabel: HOST }] } });
    await queue.#make({ nodeLabels, topologyName: queue.name }, "None");
    return queue;
  }

  async #make(flavor: object, stopPolicy: string): Promise<void> {
    const { name } = this;
    const kube = this.#kube;
    const tolerations = [{ key: LABEL, operator: "Exists" }];
    await kube.create(RESOURCE_FLAVORS, { metadata: { name }, spec: { ...flavor, tolerations } });
    const flavors = [{ name, resources: [{ name: "cpu", nominalQuota: CPUS }] }];
    await kube.create(CLUSTER_QUEUES, {
      metadata: { name },
      spec: {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": kube.namespace } },
        resourceGroups: [{ coveredResources: ["cpu"], flavors }],
        preemption: { withinClusterQueue: "LowerPriority" },
        stopPolicy,
      },
    });
    await kube.create(LOCAL_QUEUES, { metadata: { name }, spec: { clusterQueue: name } });
  }

  async release(): Promise<void> {
    await this.#kube.patch(CLUSTER_QUEUES, this.name, { spec: { stopPolicy: "None" } });
  }

  /** CPUs that Kueue has given away. */
  async reserved(): Promise<string> {
    const { status } = (await this.#kube.get(CLUSTER_QUEUES, this.name)) ?? {};
    return status?.flavorsReservation?.[0]?.resources[0]?.total ?? "";
  }

  async workload(job: string): Promise<Stored<Workload> | undefined> {
    return (await this.#kube.list(WORKLOADS, { labels: `whetstone.dev/job=${job}` }))[0];
  }

  /** `True/Started`: what the Workload says of one thing. */
  async said(job: string, type: string): Promise<string> {
    const found = (await this.workload(job))?.status?.conditions?.find((one) => one.type === type);
    return `${found?.status}/${found?.reason}`;
  }

  /** By an administrator. */
  async setActive(job: string, active: boolean): Promise<void> {
    await this.#kube.patch(WORKLOADS, (await this.workload(job))?.metadata.name ?? "", { spec: { active } });
  }

  async deleteWorkload(job: string): Promise<void> {
    await this.#kube.delete(WORKLOADS, (await this.workload(job))?.metadata.name ?? "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kube.delete(LOCAL_QUEUES, this.name);
    for (const type of [CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, PRIORITY_CLASSES])
      await this.#kube.delete(type, this.name);
  }

  /** Kueue says something of a queue within a moment, were it only that it is stopped. */
  async #isServed(): Promise<boolean> {
    const look = async () => (await this.#kube.get(CLUSTER_QUEUES, this.name))?.status?.conditions;
    const spoken = async (): Promise<boolean> => ((await look()) ?? []).length > 0;
    return await waitFor(spoken, { timeoutMs: 15_000, intervalMs: 200 }).then(
      () => true,
      () => false,
    );
  }
}
