// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { Kube, Stored } from "@whetstone/kube";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import type { TrainingJob } from "../training-job/schema.ts";
import type { JobReadiness } from "../training-job/readiness.ts";
import { PartsOnDemand } from "./parts-on-demand.ts";

const engine = (fleet: string) => ({ metadata: { labels: { "whetstone.dev/fleet": fleet } } });
/** By plural: two engines of a fleet on demand whose status does not know of them yet, and one of another fleet. */
const there: Record<string, object[]> = {
  inferencefleets: [
    { metadata: { name: "f" }, spec: { onDemand: true }, status: { replicas: 0 } },
    { metadata: { name: "always" }, spec: {}, status: { replicas: 1 } },
  ],
  pods: [engine("f"), engine("f"), engine("always")],
  deployments: [{ metadata: { name: "trainer" } }],
};
const kube = { list: ({ plural }: { plural: string }) => Promise.resolve(there[plural]) } as unknown as Kube;
const object = { metadata: { name: "j" }, spec: { job: {} } } as unknown as Stored<TrainingJob>;
const job = (waitsFor: string): Job =>
  create(JobSchema, {
    ...{ spec: { name: "j" }, status: { phase: JobPhase.SUSPENDED } },
    desiredState: DESIRED.suspendByController(waitsFor),
  });

function partsOf(jobs: () => Job[]): () => ReturnType<PartsOnDemand["look"]> {
  const parts = new PartsOnDemand({ kube, jobs: { all: async () => jobs() }, readiness: {} as JobReadiness });
  return () => parts.look(object, false, new AbortController().signal);
}

describe("engines and trainer on demand", () => {
  it("are counted themselves: what a fleet says of its pods may be older", async () => {
    expect(await partsOf(() => [job("Evicted")])()).toMatchObject({ pods: 3, neededBy: undefined });
  });

  it("are counted anew once nobody needs them any more", async () => {
    let reason = "Evicted";
    const look = partsOf(() => [job(reason)]);
    const { pods } = there;
    there["pods"] = [];
    expect(await look()).toMatchObject({ pods: 1 });
    reason = "WaitingForEngines";
    expect(await look()).toMatchObject({ neededBy: "j" });
    there["pods"] = pods ?? [];
    reason = "Evicted";
    expect(await look()).toMatchObject({ pods: 3, neededBy: undefined });
  });
});
