// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { join } from "node:path";
import { create, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { loadConfig } from "@whetstone/core";
import {
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  episodeTaskSubject,
  JOBS_BUCKET,
  type JobStreamLimits,
  type Nats,
  openBundleStore,
  openKv,
  openStreams,
  poolLoadSubject,
  POOLS_BUCKET,
  sha256Hex,
  type StoredMessage,
  taskStream,
  type TypedStreams,
} from "@whetstone/messaging";
import { DESIRED } from "@whetstone/messaging/jobs";
import {
  PoolLoadSchema,
  PoolRecordSchema,
  type PoolRunner,
  type RolloutTask,
  RolloutTaskSchema,
} from "@whetstone/proto/events/v1/events";
import {
  type DesiredState,
  JobPhase,
  JobSchema,
  type JobSpec,
  type JobSpecSchema,
} from "@whetstone/proto/jobs/v1/jobs";
import {
  type Episode,
  EpisodeSchema,
  type EpisodeSummary,
  EpisodeSummarySchema,
  Purpose,
} from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { type OrchestratorApp, startApp } from "../src/app.ts";
import { ConfigSchema } from "../src/config.ts";
import { type EnvRunnerProcess, startEnvRunner } from "./env-runner-process.ts";
import { type FakeAnswer, type FakeGateway, type SeenCall, startFakeGateway } from "./fake-gateway.ts";

export type TaskFields = Omit<Exclude<MessageInitShape<typeof RolloutTaskSchema>, RolloutTask>, "$typeName">;

export type SpecFields = Omit<Exclude<MessageInitShape<typeof JobSpecSchema>, JobSpec>, "$typeName" | "name">;

export interface PoolFields {
  readonly runners: Omit<PoolRunner, "$typeName">[];
}

export interface Sealed {
  readonly message: StoredMessage<Episode>;
  readonly episode: Episode;
  readonly summary: EpisodeSummary;
}

export interface Replica extends AsyncDisposable {
  readonly pid: number;
  readonly kill: (signal?: NodeJS.Signals) => Promise<void>;
}

/** A real nats-server and a real env-runner; the gateway is scripted and new for each test. */
export class OrchestratorSetup implements AsyncDisposable {
  readonly server: TestNats;
  readonly streams: TypedStreams;
  environments: EnvRunnerProcess;
  gateway!: FakeGateway;
  /** What the gateway answers. */
  script: (call: SeenCall) => FakeAnswer = () => ({ text: "R" });
  /** Further fields of jobs' specs. */
  readonly specs = new Map<string, SpecFields>();
  readonly #nats: Nats;
  readonly #apps: OrchestratorApp[] = [];
  readonly #jobs: string[] = [];
  #jobCount = 0;

  private constructor(server: TestNats, nats: Nats, streams: TypedStreams, environments: EnvRunnerProcess) {
    this.server = server;
    this.#nats = nats;
    this.streams = streams;
    this.environments = environments;
  }

  /** @param env  more variables of the env-runner */
  static async open(env: Record<string, string> = {}): Promise<OrchestratorSetup> {
    const [server, environments] = await Promise.all([startNats(), startEnvRunner({ env })]);
    const nats = await server.connect();
    await ensurePlatform(nats);
    return new OrchestratorSetup(server, nats, await openStreams(nats), environments);
  }

  async beforeEach(): Promise<void> {
    this.script = () => ({ text: "R" });
    this.gateway = await startFakeGateway((call) => this.script(call));
  }

  async afterEach(): Promise<void> {
    for (const job of this.#jobs.splice(0)) await this.setPhase(job, JobPhase.SUCCEEDED);
    await Promise.all(this.#apps.splice(0).map((app) => app.close()));
    await this.gateway[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nats[Symbol.asyncDispose]();
    await Promise.all([this.server[Symbol.asyncDispose](), this.environments[Symbol.asyncDispose]()]);
  }

  /** An orchestrator in this process. */
  async start(settings: Record<string, unknown> = {}): Promise<OrchestratorApp> {
    const overrides = {
      grpcPort: 0,
      natsUrl: this.server.url,
      gatewayUrl: [this.gateway.url],
      envAddress: this.environments.address,
      ackWaitMs: 1_000,
      ...settings,
    };
    const app = await startApp(loadConfig(ConfigSchema, { env: {}, overrides }), { logger: silentLogger });
    this.#apps.push(app);
    return app;
  }

  /** What the controller would write of a pool. */
  async setPool(pool: string, runners: PoolFields["runners"], epoch = 1): Promise<void> {
    const bucket = await openKv(this.#nats, POOLS_BUCKET, PoolRecordSchema);
    await bucket.put(pool, { runners, epoch: BigInt(epoch), wantedRunners: runners.length });
  }

  /** What orchestrators tell of their sessions, by runner, until it is as wanted. */
  async loadOf(pool: string, wanted: (loads: Record<string, number>) => boolean): Promise<void> {
    const subscription = this.#nats.subscribe(poolLoadSubject(pool));
    for await (const { data } of subscription) {
      const { runners } = fromBinary(PoolLoadSchema, data);
      if (wanted(Object.fromEntries(runners.map(({ id, sessions }) => [id, sessions])))) return;
    }
  }

  /** An orchestrator in its own process, to be killed. */
  startReplica(ackWaitMs = 1_000): Replica {
    const child = spawn(process.execPath, [join(import.meta.dirname, "../src/main.ts")], {
      stdio: "ignore",
      env: {
        PATH: process.env["PATH"] ?? "",
        WHETSTONE_GRPC_PORT: "0",
        WHETSTONE_NATS_URL: this.server.url,
        WHETSTONE_GATEWAY_URL: this.gateway.url,
        WHETSTONE_ENV_ADDRESS: this.environments.address,
        WHETSTONE_ACK_WAIT_MS: String(ackWaitMs),
      },
    });
    const gone = new Promise<void>((resolve) => {
      child.once("exit", () => {
        resolve();
      });
    });
    const kill = (signal: NodeJS.Signals = "SIGKILL"): Promise<void> => {
      child.kill(signal);
      return gone;
    };
    return { pid: child.pid as number, kill, [Symbol.asyncDispose]: () => kill() };
  }

  async setPhase(job: string, phase: JobPhase, desiredState: DesiredState = DESIRED.run()): Promise<void> {
    const bucket = await openKv(this.#nats, JOBS_BUCKET, JobSchema);
    await bucket.put(job, { spec: { name: job, ...this.specs.get(job) }, desiredState, status: { phase } });
  }

  async newJob(limits: JobStreamLimits = {}, spec: SpecFields = {}): Promise<string> {
    const job = `job-${(this.#jobCount += 1)}`;
    this.specs.set(job, spec);
    this.#jobs.push(job);
    await this.limit(job, limits);
    await this.setPhase(job, JobPhase.RUNNING);
    return job;
  }

  /** Puts user code into the store; for `RolloutTask.module`. */
  async keepModule(source: string): Promise<{ digest: string }> {
    const code = new TextEncoder().encode(source);
    const digest = sha256Hex(code);
    await openBundleStore(this.#nats).put(digest, code);
    return { digest };
  }

  limit(job: string, limits: JobStreamLimits): Promise<void> {
    return ensureJobStreams(this.#nats, job, limits);
  }

  /** Dispatches `<job>/g0/s<sample>`. */
  async send(job: string, sample: number, fields: TaskFields = {}): Promise<void> {
    const task = taskOf(job, sample, fields);
    await this.streams.publish(
      episodeTaskSubject(job, task.group, sample, task.environment?.pool),
      RolloutTaskSchema,
      task,
    );
  }

  async sealed(job: string, sample: number, timeoutMs = 10_000): Promise<Sealed> {
    const message = await waitFor(() => this.find(job, sample), { timeoutMs, what: `episode ${job} ${sample}` });
    const header = message.headers["Whetstone-Summary"] ?? "";
    const summary = fromBinary(EpisodeSummarySchema, Buffer.from(header, "base64"));
    return { message, episode: await message.body(), summary };
  }

  find(job: string, sample: number): Promise<StoredMessage<Episode> | undefined> {
    return this.streams.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g0", sample));
  }

  /** Tasks that orchestrators hold: playing, or waiting there for a slot. Undefined: nobody ever took any. */
  async tasksTaken(job: string, pool = "default"): Promise<number | undefined> {
    const answer = await this.#nats.request(`$JS.API.CONSUMER.INFO.${taskStream(job)}.orchestrator-${pool}`);
    return answer.json<{ num_ack_pending?: number }>().num_ack_pending;
  }

  /** Tasks waiting or in flight. */
  async tasksLeft(job: string): Promise<number> {
    const answer = await this.#nats.request(`$JS.API.STREAM.INFO.${taskStream(job)}`);
    return answer.json<{ state: { messages: number } }>().state.messages;
  }
}

export function taskOf(job: string, sample: number, fields: TaskFields): RolloutTask {
  const group = "g0";
  return create(RolloutTaskSchema, {
    episodeId: `${job}/${group}/s${sample}`,
    job,
    group,
    sample,
    purpose: Purpose.TRAIN,
    task: { id: "seed-5", payload: { seed: 5 } },
    seed: BigInt(100 + sample),
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 8 } },
    model: job,
    ...fields,
  });
}
