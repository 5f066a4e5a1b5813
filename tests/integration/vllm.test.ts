// SPDX-License-Identifier: Apache-2.0
// Real vLLM (CPU build), started as a fleet's pod starts it: the engine protocol's suite, and a job through all services.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { openLocalRuntime } from "../support/local-runtime.ts";
import { makeTwoModels, python } from "../support/two-models.ts";
import { NO_VLLM, startVllm, type Vllm } from "../support/vllm.ts";
import { changingJob } from "../support/watched-jobs.ts";

const STEPS = 5;
const title = NO_VLLM ? `with vLLM (skipped: ${NO_VLLM})` : "with vLLM";

describe.skipIf(NO_VLLM)(title, () => {
  let [folder, a, b] = ["", "", ""];
  let vllm: Vllm;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-vllm-"));
    ({ a, b } = await makeTwoModels(join(folder, "models")));
    const args = ["--enforce-eager", "--block-size=32", "--max-num-seqs=64"];
    const weightsDir = join(folder, "weights");
    mkdirSync(weightsDir);
    vllm = await startVllm(a, { args, env: { VLLM_CPU_KVCACHE_SPACE: "1" }, weightsDir });
  }, 320_000);
  afterAll(async () => {
    await vllm?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it("speaks the engine protocol: the suite passes through the proxy", async () => {
    const files = ["data_plane", "control", "weights"].map((name) => `tests/engine/test_${name}.py`);
    const environment = { IEP_TARGET: vllm.controlUrl, IEP_MODEL_B: b };
    console.log(await python(environment, "-m", "pytest", "-rs", "-p", "no:cacheprovider", ...files));
  }, 600_000);

  it("has nothing that `whet engines check` finds", async () => {
    const { signal } = new AbortController();
    const terminal = fakeTerminal();
    const argv = ["engines", "check", vllm.controlUrl, "--model", a, "--other-model", b, "--timeout", "120"];
    // In this process, which goes on reading what vLLM says meanwhile.
    const status = await runCommand(argv, { terminal, environment: {}, signal, force: signal });
    console.log(terminal.out.join("\n"));
    expect([status, terminal.err]).toEqual([0, []]);
  }, 600_000);

  it.each([
    ["by itself, weights by folder", "folder", []],
    ["beside a PyTorch engine, weights by stream", "stream", ["e0"]],
  ])(
    "serves a job through all services, %s: every token is accounted for",
    async (_how, transport, beside) => {
      const name = `vllm-${transport}`;
      await using runtime = await openLocalRuntime({ data: join(folder, name), model: a });
      await using fleet = createClient(FleetService, runtime.address("gateway"));
      await using jobs = createClient(JobService, runtime.address("controller"));
      if (beside.length === 0) await fleet.removeEngine({ id: "e0" });
      await fleet.registerEngine({ id: "vllm", url: vllm.dataUrl, controlUrl: vllm.controlUrl });
      const before = await sampled(vllm.dataUrl);
      const job = changingJob(name, a, STEPS, { [transport]: {} });
      const truncated = fromJson(JobSpecSchema, { ...job, sampling: { topK: 8 } });
      await expect(jobs.submitJob({ spec: truncated })).rejects.toThrow(/sampling\.topK: engine vllm does not name/);
      const spec = fromJson(JobSpecSchema, job);
      const began = performance.now();
      await jobs.submitJob({ spec });
      const get = async (): Promise<Job["status"]> => (await jobs.getJob({ name })).job?.status;
      const ended = [JobPhase.SUCCEEDED, JobPhase.FAILED];
      await waitFor(async () => ended.includes((await get())?.phase ?? 0), { timeoutMs: 240_000 });
      console.log(`${STEPS} steps in ${((performance.now() - began) / 1000).toFixed(1)} s`);
      expect(await get()).toMatchObject({ phase: JobPhase.SUCCEEDED, policyVersion: BigInt(STEPS) });
      const nothing = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n };
      const episodes = BigInt(32 * STEPS);
      expect(await jobs.auditJob({ name })).toMatchObject({ dispatched: episodes, trained: episodes, ...nothing });
      expect((await countOf(vllm.dataUrl, "whetstone_engine_weight_transfer_bytes_total")) > 0).toBe(
        transport === "stream",
      );
      // All that is there sampled, with the weights that the labels name: the trainer computes the same again.
      const { engines } = await fleet.listEngines({});
      expect(engines.map(({ id, reason }) => [id, reason])).toEqual([...beside, "vllm"].map((id) => [id, ""]));
      const counts = [(await sampled(vllm.dataUrl)) - before];
      if (beside.length > 0) counts.push(await sampled(`http://${runtime.address("engine-0", "http")}`));
      console.log(
        `tokens sampled by vLLM${beside.length > 0 ? " and the PyTorch engine" : ""}: ${counts.join(" and ")}`,
      );
      expect(Math.min(...counts)).toBeGreaterThan(50);
      const differences: number[] = [];
      for await (const { event } of jobs.streamMetrics({ name })) {
        if (event.case !== "step") continue;
        expect(event.value.metrics["logprob_diff/episodes_checked"]).toBeGreaterThan(0);
        differences.push(event.value.metrics["logprob_diff/max"] ?? Infinity);
      }
      expect(differences).toHaveLength(STEPS);
      expect(Math.max(...differences)).toBeLessThan(1e-4);
    },
    400_000,
  );
});

const sampled = (url: string): Promise<number> => countOf(url, "vllm:generation_tokens_total");

/** A counter of an engine, over all its labels; 0: it has none of that name. */
async function countOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
