// SPDX-License-Identifier: Apache-2.0
// The proxy that stands before vLLM fetches weights for it, from the trainer and from an object store, while it samples on.
// Here it stands before the PyTorch engine, which is given folders only, as vLLM is; vllm.test.ts has vLLM itself.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { objectStoreProgram, startObjectStore, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EngineProxy, startProxy } from "../../services/inference-gateway/src/proxy/app.ts";
import { ProxyConfigSchema } from "../../services/inference-gateway/src/proxy/config.ts";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";
import { changingJob } from "../support/watched-jobs.ts";

const built = objectStoreProgram();
const skipped = "missing" in built ? built.missing : "";
const STEPS = 4;
const NOTHING = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n };

describe.skipIf(skipped !== "")(`an engine behind the proxy${skipped && ` (skipped: ${skipped})`}`, () => {
  const stack = new AsyncDisposableStack();
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;
  let proxy: EngineProxy;
  let dataPath: string;

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-proxy-"));
    stack.defer(() => rmSync(folder, { recursive: true, force: true }));
    const store = stack.use(await startObjectStore((built as { program: string }).program, join(folder, "objects")));
    Object.assign(process.env, store.environment);
    runtime = stack.use(await startLocalRuntime("--object-store", store.url));
    jobs = stack.use(createClient(JobService, runtime.address("controller")));
    const fleet = stack.use(createClient(FleetService, runtime.address("gateway")));
    const [weightsDir, engineUrl] = [join(folder, "weights"), `http://${runtime.address("engine-0", "http")}`];
    dataPath = join(folder, "own");
    mkdirSync(weightsDir);
    const own = { weightsDir, objectStore: store.url, dataPath, artifactAddress: runtime.address("controller") };
    const config = { engineUrl, dataPort: 0, controlPort: 0, ...own };
    proxy = stack.use(await startProxy(ProxyConfigSchema.parse(config), { logger: silentLogger }));
    await fleet.removeEngine({ id: "e0" });
    await fleet.registerEngine({ id: "guarded", url: proxy.dataUrl, controlUrl: proxy.controlUrl });
  }, 240_000);
  afterAll(() => stack.disposeAsync());

  const fetchedBy = async (url: string): Promise<number> => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const counts = text.matchAll(/^whetstone_engine_weight_transfer_bytes_total\S* (\d+)/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  };

  it.each<[string, string, JsonObject]>([
    ["the trainer", "", { stream: {} }],
    ["an object store", "", { objectStore: {} }],
    ["an object store, of a model that was pushed", "pushed", { objectStore: {} }],
  ])(
    "samples for a job from the weights that the proxy fetches from %s",
    async (_from, pushed, transport) => {
      const name = `by-${pushed}-${Object.keys(transport)[0]?.toLowerCase()}`;
      if (pushed !== "") expect(runtime.whet("models", "push", pushed, runtime.model).status).toBe(0);
      const model = pushed === "" ? runtime.model : `artifact://models/${pushed}`;
      const before = await fetchedBy(proxy.dataUrl);
      await jobs.submitJob({ spec: fromJson(JobSpecSchema, changingJob(name, model, STEPS, transport)) });
      const status = async () => (await jobs.getJob({ name })).job?.status;
      const over = [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED];
      await waitFor(async () => over.includes((await status())?.phase ?? 0), { timeoutMs: 150_000 });
      const ended = await status();
      expect(ended?.phase, ended?.message).toBe(JobPhase.SUCCEEDED);
      expect(await jobs.auditJob({ name })).toMatchObject({ ...NOTHING, inFlight: 0n });
      expect((await fetchedBy(proxy.dataUrl)) - before).toBeGreaterThan(STEPS * 100_000);
      expect(await fetchedBy(`http://${runtime.address("engine-0", "http")}`)).toBe(0);
      // Its first version, from the controller.
      const brought = existsSync(join(dataPath, "artifacts/sha256"))
        ? readdirSync(join(dataPath, "artifacts/sha256"))
        : [];
      expect(brought).toHaveLength(pushed === "" ? 0 : 1);
      // It samples from what it says: the trainer computes the same log-probabilities from what it published.
      for await (const { event } of jobs.streamMetrics({ name }))
        if (event.case === "step") expect(event.value.metrics["logprob_diff/max"]).toBeLessThan(1e-4);
    },
    240_000,
  );
});
