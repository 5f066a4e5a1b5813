// SPDX-License-Identifier: Apache-2.0
/** A JobService that plays a script: what a client sees of a job, without any loop behind it. */
import { create } from "@bufbuild/protobuf";
import { ConfigError, WhetstoneError } from "@whetstone/core";
import type { Job, JobSpec, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase, JobSchema, JobService } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { implement, startServer } from "@whetstone/rpc";
import type { RpcServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";

export interface FakeController extends AsyncDisposable {
  readonly address: string;
  readonly jobs: Map<string, Job>;
  /** Steps that a watched job takes before its end. */
  steps: number;
  /** The phase it ends in; RUNNING: it never does. */
  end: JobPhase;
  readonly calls: string[];
  /** What a finished job's validations came to. */
  validations: ValidationResult[];
  /** Sealed episodes of any job. */
  episodes: EpisodeSummary[];
}

export async function startFakeController(): Promise<FakeController> {
  const state = {
    steps: 2,
    end: JobPhase.SUCCEEDED as JobPhase,
    validations: [] as ValidationResult[],
    episodes: [] as EpisodeSummary[],
  };
  const [jobs, calls] = [new Map<string, Job>(), [] as string[]];
  const get = (name: string): Job => {
    const job = jobs.get(name);
    if (!job) throw new WhetstoneError("NOT_FOUND", `there is no job ${name}`);
    return job;
  };
  const become =
    (call: string, phase: JobPhase) =>
    ({ name }: { name: string }) => {
      calls.push(call);
      const job = get(name);
      if (job.status) job.status.phase = phase;
      return { job };
    };
  const service = implement(JobService, {
    submitJob: ({ spec }) => {
      calls.push("submit");
      refuse(spec);
      const created = !jobs.has(spec?.name ?? "");
      if (created) jobs.set(spec?.name ?? "", newJob(spec));
      return { job: get(spec?.name ?? ""), created };
    },
    getJob: ({ name }) => ({ job: get(name) }),
    listJobs: () => ({ jobs: [...jobs.values()] }),
    suspendJob: become("suspend", JobPhase.SUSPENDED),
    resumeJob: become("resume", JobPhase.RUNNING),
    cancelJob: become("cancel", JobPhase.CANCELLED),
    watchJob: async function* ({ name }, { signal }) {
      const job = get(name);
      yield { job };
      if (state.end === JobPhase.RUNNING) {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return;
      }
      const { end: phase, steps: step, validations } = state;
      if (job.status) Object.assign(job.status, { phase, step, validations, message: "as scripted" });
      yield { job };
    },
    streamEpisodes: async function* ({ follow }, { signal }) {
      for (const summary of state.episodes) yield { summary };
      if (follow) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
    streamMetrics: async function* () {
      for (let step = 0; step < state.steps; step += 1) {
        const metrics = { "reward/mean": step / 10, loss: 0.5 };
        yield { event: { case: "step" as const, value: { step, metrics, episodes: 8 } } };
      }
    },
  });
  const server: RpcServer = await startServer({
    host: "127.0.0.1",
    port: 0,
    services: [service],
    logger: silentLogger,
  });
  return Object.assign(state, { address: server.address, jobs, calls, [Symbol.asyncDispose]: () => server.close(0) });
}

/** What only a controller can know. */
function refuse(spec: JobSpec | undefined): void {
  const kind = spec?.algorithm?.kind;
  if (kind?.case !== "policyGradient" || kind.value.groupSize !== 999) return;
  const reason = "times loop.batchGroups must be at most 32768";
  throw new ConfigError([{ path: "algorithm.policyGradient.groupSize", reason }]);
}

function newJob(spec: JobSpec | undefined): Job {
  const status = { phase: JobPhase.RUNNING, reason: "Training", modelPath: "/weights" };
  return create(JobSchema, { ...(spec ? { spec } : {}), uid: "u", status });
}
