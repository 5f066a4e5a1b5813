// SPDX-License-Identifier: Apache-2.0
// Jobs through the cluster's controller, as `whet --context` reaches it: with a tunnel that lives through its pods.
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { setTimeout as delay } from "node:timers/promises";

import { type Job, JobPhase, JobSpecSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";

import { type JobClient, jobClient } from "../../services/cli/src/connect/clients.ts";
import { openCluster } from "../../services/cli/src/cluster/cluster.ts";
import { NAMESPACE, RELEASE, whet } from "./whet.ts";

const LOOK_MS = 200;
const ASK_MS = 5_000;

export interface Jobs extends AsyncDisposable {
  readonly client: JobClient;
  submit(spec: JsonObject): Promise<void>;
  /** Undefined: nobody answered. */
  find(name: string): Promise<Job | undefined>;
  /** Steps done, as far as can be known now. */
  step(name: string): Promise<number>;
  /** Waits until so many steps are done. @throws when the job ends before, or it takes too long */
  reaches(name: string, step: number, withinMs: number): Promise<void>;
  succeeds(name: string, withinMs: number): Promise<Job>;
}

export async function openJobs(): Promise<Jobs> {
  const cluster = await openCluster({ context: "current", namespace: NAMESPACE, release: RELEASE }, process.env);
  const client = jobClient(cluster.endpoint, cluster.tlsPath ? { WHETSTONE_TLS_PATH: cluster.tlsPath } : {});
  const known = new Map<string, number>();
  const find = async (name: string): Promise<Job | undefined> => {
    const job = (await client.getJob({ name }, { deadlineMs: ASK_MS }).catch(() => undefined))?.job;
    if (job) known.set(name, job.status?.step ?? 0);
    return job;
  };
  const step = async (name: string): Promise<number> => {
    await find(name);
    return known.get(name) ?? 0;
  };
  return {
    client,
    find,
    step,
    submit: async (spec) => {
      await client.submitJob({ spec: fromJson(JobSpecSchema, spec) }, { deadlineMs: 60_000 });
    },
    reaches: (name, wanted, withinMs) =>
      until(`step ${wanted} of ${name}`, withinMs, async () => {
        const job = await find(name);
        refuseFailed(job);
        return (job?.status?.step ?? 0) >= wanted;
      }),
    succeeds: async (name, withinMs) => {
      let job: Job | undefined;
      await until(`the end of ${name}`, withinMs, async () => {
        job = await find(name);
        refuseFailed(job);
        return job?.status?.phase === JobPhase.SUCCEEDED;
      });
      return job as Job;
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await cluster[Symbol.asyncDispose]();
    },
  };
}

export async function until(what: string, withinMs: number, done: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = performance.now() + withinMs; performance.now() < end; await delay(LOOK_MS))
    if (await done()) return;
  throw new Error(`${what}: not within ${withinMs / 1000} s`);
}

function refuseFailed(job: Job | undefined): void {
  const { phase = JobPhase.UNSPECIFIED, message = "" } = job?.status ?? {};
  if (phase === JobPhase.FAILED || phase === JobPhase.CANCELLED)
    throw new Error(`${job?.spec?.name} is ${JobPhase[phase]}: ${message}`);
}

/** Submits a job and follows it to its end; `onStep` is told of each step as it is reported. */
export async function runJob(
  jobs: Jobs,
  spec: JsonObject,
  onStep: (step: number) => void = () => {},
): Promise<{ job: Job; steps: StepRecord[] }> {
  const name = spec["name"] as string;
  await jobs.submit(spec);
  const steps: StepRecord[] = [];
  for await (const { event } of jobs.client.streamMetrics({ name, follow: true })) {
    if (event.case !== "step") continue;
    steps.push(event.value);
    onStep(steps.length);
  }
  return { job: await jobs.succeeds(name, 10_000), steps };
}

/** Share of the trained episodes that were paid. */
export async function meanSuccess({ client }: Jobs, name: string): Promise<number> {
  const rates: number[] = [];
  for await (const { event } of client.streamMetrics({ name, follow: false }))
    if (event.case === "step") rates.push(event.value.metrics["rollout/success"] ?? Number.NaN);
  return rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
}

/** `whet jobs audit`. @throws when it finds anything */
export function audit(name: string): string {
  const { status, json, output } = whet("jobs", "audit", name, "--json");
  const { dispatched, trained, voided, lost, duplicated, stale, unlabelled } = (json ?? {}) as Record<string, number>;
  const text = `${dispatched} dispatched, ${trained} trained, ${voided} voided; lost/duplicated/stale/unlabelled ${lost}/${duplicated}/${stale}/${unlabelled}`;
  if (status !== 0) throw new Error(`whet jobs audit ${name} ended with ${status}: ${json ? text : output}`);
  if (!trained) throw new Error(`nothing was trained: ${text}`);
  return text;
}
