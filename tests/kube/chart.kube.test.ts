// SPDX-License-Identifier: Apache-2.0
// What only Helm and an API server together can show of the chart. No pod of it has to run.
import { execFile, execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENVIRONMENT_POOLS } from "../../services/controller/src/operator/environment-pool/schema.ts";
import { INFERENCE_FLEETS } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { installDefinitions, openTestCluster, type TestCluster } from "../support/cluster.ts";
import { runWhet } from "../support/whet.ts";

const CHART = resolve(import.meta.dirname, "../../charts/whetstone");

let cluster: TestCluster;
let other: TestCluster;
beforeAll(async () => {
  installDefinitions();
  cluster = await openTestCluster("chart");
  other = await openTestCluster("chart-other");
});
afterAll(async () => {
  await helm("uninstall", "one", "--no-hooks");
  await other[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

/** What it said, errors too. Hooks would wait for pods. */
function helm(...args: readonly string[]): Promise<string> {
  return new Promise((done) => {
    execFile("helm", ["--namespace", cluster.namespace, ...args], (error, out, err) =>
      done(error ? `failed: ${err}` : out),
    );
  });
}

const install = (release: string, ...more: readonly string[]): Promise<string> =>
  helm("install", release, CHART, "--no-hooks", ...more);
const upgrade = (...sets: readonly string[]): Promise<string> =>
  helm(
    "upgrade",
    "one",
    CHART,
    "--no-hooks",
    "--reuse-values",
    ...sets.flatMap((set) => (set.startsWith("--") ? set : ["--set", set])),
  );
/** Helm 4 has the API server apply, which refuses what it would take from others unless told to. */
const isHelm4 = !execFileSync("helm", ["version", "--template", "{{.Version}}"]).toString().startsWith("v3");
const anyway = isHelm4 ? ["--force-conflicts"] : [];

/** As `whet fleet scale`, `whet pools scale` and an HPA do it. */
async function scale(engines: number, runners: number): Promise<void> {
  const to = (replicas: number) => ({ spec: { replicas } });
  await cluster.kube.patch(INFERENCE_FLEETS, "default", to(engines), { subresource: "scale" });
  await cluster.kube.patch(ENVIRONMENT_POOLS, "default", to(runners), { subresource: "scale" });
}

async function replicas(): Promise<unknown[]> {
  const fleet = await cluster.kube.get(INFERENCE_FLEETS, "default");
  const pool = await cluster.kube.get(ENVIRONMENT_POOLS, "default");
  return [fleet?.spec.replicas, pool?.spec.replicas];
}

/** `whet install` of values that must be refused before anything is changed. */
function installRefused(release: string, ...flags: string[]): { code: number | null; said: string } {
  const where = ["--context", "current", "--namespace", cluster.namespace, "--release", release];
  const { status, output } = runWhet("install", "--kube", ...where, "--no-wait", ...flags);
  return { code: status, said: output };
}

/** Definitions as `whet install` upgrades them, and releases. */
async function installed(): Promise<string> {
  const crds = await cluster.kubectl(["get", "crds", "trainingjobs.whetstone.dev", "-o", "jsonpath={.metadata}"]);
  return `${crds.text} ${await helm("list", "--all", "--all-namespaces", "--short")}`;
}

describe("values that go wrong are refused with 2, before anything is changed", () => {
  it.each([
    ["vLLM with the model that is made for another engine", ["--set", "engine.profile=vllm"], /model\.init: .*vllm/],
    ["several nodes for an engine of one", ["--set", "engine.nodesPerReplica=2"], /engine\.nodesPerReplica: .*vllm/],
    [
      "a volume for weights of which an engine's other pods see nothing",
      [
        "--set",
        "engine.profile=vllm,model.init=null,engine.nodesPerReplica=2,engine.weightsVolume.emptyDir.sizeLimit=1Gi",
      ],
      /engine\.weightsVolume: .*nodesPerReplica=2/,
    ],
    ["an unknown value", ["--set", "enigne.replicas=2"], /enigne/],
    ["a wrong type", ["--set", "engine.replicas=two"], /engine\.replicas: .*integer/],
    ["a file that is not there", ["--values", "/nope.yaml"], /nope\.yaml/],
  ])("%s", async (_, flags, named) => {
    const before = await installed();
    const { code, said } = installRefused("fresh", ...flags);
    expect(said).toMatch(named);
    expect(code).toBe(2);
    expect(await installed()).toBe(before);
  });
});

/** Their numbers, oldest first. */
async function revisions(): Promise<string[]> {
  const history = JSON.parse(await helm("history", "one", "--output", "json")) as { revision: number }[];
  return history.map(({ revision }) => String(revision));
}

describe("the chart, installed", () => {
  it("is refused where another release is, by that one's name, and nowhere else", async () => {
    expect(await install("one")).toContain("STATUS: deployed");
    const refused = await install("two");
    expect(refused).toContain(`Release "one" is already installed in namespace "${cluster.namespace}"`);
    expect(await install("two", "--dry-run=server")).toContain("already installed");
    expect(await install("two", "--dry-run=server", "--namespace", other.namespace)).toContain("STATUS: pending");
    expect(await helm("template", "two", CHART)).toContain("kind: InferenceFleet");
    expect(await helm("list", "--short")).toBe("one\n");
  });

  it("refuses what an upgrade cannot change, and stays deployed", async () => {
    const two = ["engine.profile=vllm", "engine.nodesPerReplica=2", "model.init=null", "model.path=/data/models/mine"];
    const before = await installed();
    const { code, said } = installRefused("one", ...two.flatMap((set) => ["--set", set]));
    expect(said).toMatch(/engine\.nodesPerReplica: cannot be changed from 1 to 2/);
    expect(code).toBe(2);
    expect(await installed()).toBe(before);
    expect(await helm("status", "one")).toContain("STATUS: deployed");
  });

  it("keeps what was scaled, unless an upgrade changes that very value", async () => {
    await scale(3, 4);
    expect(await upgrade("gateway.podAnnotations.test=yes", "engine.drainSeconds=7")).toContain("STATUS: deployed");
    expect(await replicas()).toEqual([3, 4]);
    if (isHelm4) expect(await upgrade("engine.replicas=2")).toContain("conflict");
    expect(await upgrade("engine.replicas=2", ...anyway)).toContain("STATUS: deployed");
    expect(await replicas()).toEqual([2, 4]);
    expect(await upgrade("envRunner.replicas=5", ...anyway)).toContain("STATUS: deployed");
    expect(await replicas()).toEqual([2, 5]);
    await scale(6, 7);
    expect(await helm("rollback", "one", "--no-hooks", ...anyway)).toContain("Rollback was a success");
    // Helm 3 takes back what the last upgrade changed; Helm 4 brings all of the text of then.
    expect(await replicas()).toEqual(isHelm4 ? [2, 4] : [6, 1]);
  });

  it("leaves a pool that scales by itself its number when the scaler is turned on, and off again", async () => {
    await scale(1, 4);
    expect(await upgrade("envRunner.autoscaling.enabled=true")).toContain("STATUS: deployed");
    const [, on] = await replicas();
    expect(await upgrade("envRunner.autoscaling.enabled=false")).toContain("STATUS: deployed");
    const [, off] = await replicas();
    expect([on, off]).toEqual([4, 4]);
  });

  it("fills certificates anew in every revision, though a Job of the former one is still there", async () => {
    const jobOf = async (revision: string) =>
      /name: (one-certificates-\w{8})$/m.exec(await helm("get", "manifest", "one", "--revision", revision))?.[1];
    expect(await upgrade()).toContain("STATUS: deployed");
    const [first = "", second = ""] = (await revisions()).slice(-2);
    expect(await jobOf(first)).toMatch(/one-certificates-/);
    expect(await jobOf(second)).not.toBe(await jobOf(first));
  });

  it("says no number where none is set, for tools that apply the whole text again", async () => {
    const none = ["--set", "engine.replicas=null", "--set", "envRunner.replicas=null"];
    const of = async (...sets: string[]) => [
      ...(await helm("template", "two", CHART, ...sets, "-s", "templates/engine.yaml")).matchAll(/^  replicas:.*$/gm),
      ...(await helm("template", "two", CHART, ...sets, "-s", "templates/env-runner.yaml")).matchAll(
        /^  replicas:.*$/gm,
      ),
    ];
    expect((await of()).map(String)).toEqual(["  replicas: 1", "  replicas: 1"]);
    expect(await of(...none)).toEqual([]);
    const zero = ["--set", "engine.replicas=0", "--set", "envRunner.replicas=0"];
    expect((await of(...zero)).map(String)).toEqual(["  replicas: 0", "  replicas: 0"]);
  });
});
