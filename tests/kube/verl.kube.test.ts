// SPDX-License-Identifier: Apache-2.0
// A job on verl in a RayCluster that KubeRay's own operator makes: on a cluster where deploy/kuberay/install.sh has put it, with the image
// of `make images IMAGES=trainer-verl`. WHETSTONE_KUBERAY=required: it is an error where it is not there.
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it, onTestFailed, vi } from "vitest";
import { audit } from "../e2e/jobs.ts";
import { describeFailure, install, loadImages, makeNamespace, NAMESPACE, removeNamespace } from "../e2e/release.ts";
import { attempt } from "../e2e/cluster.ts";
import {
  applyRayJob,
  askRayWithoutToken,
  deleteOperator,
  killPod,
  lacksKubeRay,
  LONG,
  ranksIn,
  rayPods,
  reachesStep,
  retrainInPod,
  statusOf,
  trainerSaid,
} from "../support/ray-jobs.ts";

vi.hoisted(() => (process.env["E2E_NAMESPACE"] = `whetstone-ray-${process.pid}`));

const IMAGE = `${process.env["REGISTRY"] || "localhost/whetstone"}/trainer-verl:${process.env["TAG"] || "dev"}`;
const [JOB, STEPS, WORKERS] = ["verl", 20, 2];
/** So little that all of it fits on a node of two cores. */
const SMALL = ["trainer", "engine", "trainerVerl"].map((part) => `${part}.resources.requests.cpu=50m`);

const lack = lacksKubeRay();
if (lack && process.env["WHETSTONE_KUBERAY"] === "required") throw new Error(lack);
if (lack) console.log(`not tested: ${lack}`);

describe.skipIf(lack !== undefined)("a job on verl and KubeRay", () => {
  beforeAll(() => {
    makeNamespace();
    loadImages();
    console.log(`install: ${install(...SMALL, "trainerVerl.headResources.requests.cpu=50m")}`);
  }, 400_000);

  afterAll(removeNamespace, 300_000);

  /** What TrainerReady says until the job is two steps further. */
  async function saidWhile(trouble: () => void): Promise<string[]> {
    onTestFailed(() => console.log(describeFailure()));
    const before = statusOf(JOB).step ?? 0;
    // Right after a step the next one begins: its batch is there already.
    await reachesStep(JOB, before + 1);
    await new Promise((done) => setTimeout(done, 1_000));
    const began = performance.now();
    trouble();
    const said = new Set<string>();
    const goesOn = () => {
      said.add(trainerSaid(JOB));
      return (statusOf(JOB).step ?? 0) >= before + 3;
    };
    await waitFor(goesOn, { ...LONG, what: `${JOB} to go on; TrainerReady said ${[...said].join(" | ")}` });
    console.log(`two steps further after ${((performance.now() - began) / 1000).toFixed(0)} s`, [...said]);
    return [...said];
  }

  it("has a rank in each of its worker pods, and none in its head", async () => {
    onTestFailed(() => console.log(describeFailure()));
    applyRayJob(JOB, STEPS, { backend: "verl", workers: WORKERS });
    await reachesStep(JOB, 1);
    const [head = ""] = rayPods(JOB, "head");
    expect([ranksIn(head), ...rayPods(JOB, "worker").map(ranksIn)]).toEqual([0, 1, 1]);
    expect(askRayWithoutToken(head)).toContain("InvalidAuthToken");
  }, 300_000);

  it("goes on when a worker pod is killed within a step, and the operator with it, and says why it stood", async () => {
    const [worker = ""] = rayPods(JOB, "worker");
    const said = await saidWhile(() => {
      killPod(worker);
      deleteOperator();
    });
    expect(rayPods(JOB, "worker")).not.toContain(worker);
    expect(said).toContainEqual(expect.stringMatching(/^False\/WorkerLost: head ready, 1 of 2 workers/));
    expect(said).toContainEqual(
      expect.stringMatching(/^False\/RankLost: a rank of the trainer (ended|did not answer)/),
    );
  }, 300_000);

  it("goes on when its head is killed within a step, and says so", async () => {
    const [head = ""] = rayPods(JOB, "head");
    const said = await saidWhile(() => killPod(head));
    expect(rayPods(JOB, "head")).not.toContain(head);
    expect(said).toContainEqual(expect.stringMatching(/^False\/HeadLost: head not ready, /));
  }, 300_000);

  it("has lost nothing at its end, and its pods are gone", async () => {
    await waitFor(() => statusOf(JOB).state === "Succeeded", { ...LONG, what: `the end of ${JOB}` });
    expect(statusOf(JOB)).toMatchObject({ step: STEPS, restarts: 0 });
    // Throws for an episode that was lost or trained twice, and a token that is too old or has no label.
    console.log(audit(JOB));
    const gone = () => rayPods(JOB, "head").length + rayPods(JOB, "worker").length === 0;
    await waitFor(gone, { ...LONG, what: "Ray's pods to go" });
  }, 300_000);

  it("has the weights, bit for bit, of the same steps done again by ranks that nothing happens to", async () => {
    const { same, versions } = await retrainInPod(JOB, STEPS, WORKERS, IMAGE);
    const compared = versions.filter(({ published }) => published !== null);
    console.log(
      `${compared.length} of ${versions.length} versions are still there, the last ${JSON.stringify(versions.at(-1))}`,
    );
    expect(same).toBe(true);
    expect(compared.map(({ version }) => version)).toContain(STEPS);
    // Each step moved them.
    expect(new Set(versions.map(({ retrained }) => retrained)).size).toBe(STEPS);
    expect(attempt("kubectl", ["-n", NAMESPACE, "get", "rayclusters", "-o", "name"]).stdout).toBe("");
  }, 300_000);
});
