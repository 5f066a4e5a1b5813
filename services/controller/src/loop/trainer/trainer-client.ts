// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { RpcClient } from "@whetstone/rpc";
import { type BatchManifest, BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import type { DroppedEpisode } from "@whetstone/proto/jobs/v1/jobs";
import {
  type ConfigureResponse,
  type EvaluateResult,
  type Notice,
  NoticeSchema,
  type TrainerService,
  type TrainProgress,
  TrainProgressSchema,
  type TrainResult,
} from "@whetstone/proto/trainer/v1/trainer";
import { ConfigureProgress } from "./configure-progress.ts";
import type { Authority } from "../../leading/lead.ts";
import { type TrainedJob, type Trainer, type TrainerState, WAITING } from "../ports.ts";

/** A trainer that is silent for longer is asked again. It sends progress at least every second of work. */
const SILENCE_MS = 120_000;
const RANK_LOST = "RankLost";
/** A trainer whose disk or object store does not take its files answers nothing but that; of several ranks one may be lost. */
const TOLD: readonly string[] = ["DiskFull", "ObjectStoreFull", "ObjectStoreFailing", RANK_LOST];
/** Configure answers within seconds, ready or with its progress; a trainer that does not is taken to be away. */
const CONFIGURE_ANSWER_MS = 30_000;
/** A trainer that gets ready and shows no change for longer has failed, however slow its disks are. */
const CONFIGURE_STALL_MS = 300_000;
/** A version of any size is read and written once, after the step that runs. */
const REPAIR_MS = 600_000;
/** Between two questions to a trainer that answers at once. Ours takes a second to say that it is not ready. */
const CONFIGURE_POLL_MS = 200;

/** Of TrainStep and of Evaluate. */
interface Answer<R> {
  readonly kind:
    | { readonly case: "progress"; readonly value: TrainProgress }
    | { readonly case: "result"; readonly value: R }
    | { readonly case: undefined; readonly value?: undefined };
}

type Tell = (notices: readonly Notice[]) => void;

interface Options {
  readonly client: RpcClient<typeof TrainerService>;
  readonly runPathOf: (jobUid: string) => string;
  /** Asked before every call; the calls themselves carry the job's epoch. */
  readonly lead?: Pick<Authority, "assert">;
  readonly logger: Logger;
  /** Milliseconds without change after which a trainer that gets ready has failed. */
  readonly configureStallMs?: number;
}

/** The trainer service, with the patience that its restarts need: whatever was lost is configured and asked for again. */
export class TrainerClient implements Trainer {
  readonly #options: Options;
  #job: TrainedJob | undefined;
  #waitedMs = 0;
  /** What the trainer found in the run folder: it stays, whatever else is told for a while. */
  #found: readonly Notice[] = [];
  /** Why it has lost what it had done of the present work; until that is done again. */
  #lost: readonly Notice[] = [];

  constructor(options: Options) {
    this.#options = options;
  }

  async configure(job: TrainedJob, signal: AbortSignal): Promise<TrainerState> {
    this.#job = job;
    this.#found = [];
    const tell = (notices: readonly Notice[]): void => this.#tell(notices);
    return this.#patiently(() => this.#configureOnce(tell, signal), tell, signal);
  }

  async trainStep(
    step: number,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<TrainResult> {
    return this.#after(step, (goesOn) => this.#trainOnce(step, goesOn, signal), onProgress, signal);
  }

  async evaluate(manifest: BatchManifest, signal: AbortSignal): Promise<EvaluateResult | undefined> {
    const given = toBinary(BatchManifestSchema, manifest);
    const work = async (): Promise<EvaluateResult | undefined> => {
      try {
        return await this.#evaluateOnce(given, signal);
      } catch (error) {
        if (WhetstoneError.from(error).code === "NOT_FOUND") return undefined;
        throw error;
      }
    };
    return this.#after(manifest.step, work, () => undefined, signal);
  }

  async repairWeights(policyVersion: bigint): Promise<void> {
    const { epoch } = this.#configuredJob().ledger;
    await this.#options.client.repairWeights({ epoch, policyVersion }, { deadlineMs: REPAIR_MS });
  }

  /** Works when `step` steps are done: as they are at first, and after a failure once they have been done again. */
  async #after<T>(
    step: number,
    work: (onProgress: (progress: TrainProgress) => void) => Promise<T>,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<T> {
    let first: number | undefined = step;
    // It waits as a step of its own does, and may be left as such.
    const tell = (notices: readonly Notice[]): void => {
      onProgress(create(TrainProgressSchema, { phase: WAITING, notices: [...notices] }));
    };
    const goesOn = (progress: TrainProgress): void => {
      onProgress(create(TrainProgressSchema, { ...progress, notices: [...this.#lost, ...progress.notices] }));
    };
    const attempt = async (): Promise<T> => {
      // After a failure the trainer may be a new process, whose checkpoint may be older than the step before this one.
      const from = first ?? Math.min(step, (await this.#configureOnce(tell, signal)).step);
      first = undefined;
      for (let earlier = from; earlier < step; earlier++) await this.#trainOnce(earlier, goesOn, signal);
      return work(goesOn);
    };
    return this.#patiently(attempt, tell, signal);
  }

  takeWaitedMs(): number {
    const waited = this.#waitedMs;
    this.#waitedMs = 0;
    return waited;
  }

  /** Asks until the trainer is ready, however long it takes as long as it goes on. */
  async #configureOnce(tell: Tell, signal: AbortSignal): Promise<TrainerState> {
    const { spec, uid: jobUid, ledger } = this.#configuredJob();
    const request = { spec, jobUid, epoch: ledger.epoch, runPath: this.#options.runPathOf(jobUid) };
    const progress = new ConfigureProgress(this.#options.configureStallMs ?? CONFIGURE_STALL_MS);
    for (;;) {
      this.#options.lead?.assert();
      const answer = await this.#options.client.configure(request, { signal, deadlineMs: CONFIGURE_ANSWER_MS });
      if (!answer.progress) return this.#ready(answer);
      tell([...this.#lost, progress.notice(answer.progress)]);
      await sleep(CONFIGURE_POLL_MS, signal);
    }
  }

  #ready({ step, weights, notices }: ConfigureResponse): TrainerState {
    if (!weights) throw new WhetstoneError("CONTRACT_VIOLATION", "the trainer was configured but names no weights");
    if (notices.length > 0) this.#found = notices;
    this.#tell([]);
    return { step, weights };
  }

  /** What holds now, before what was found in the run folder. */
  #tell(now: readonly Notice[]): void {
    this.#job?.onNotices?.([...now, ...this.#found]);
  }

  async #trainOnce(
    step: number,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<TrainResult> {
    const request = await this.#stepRequest(step);
    return this.#resultOf<TrainResult>(
      (heard) => this.#options.client.trainStep(request, { signal: heard }),
      onProgress,
      signal,
    );
  }

  async #evaluateOnce(manifest: Uint8Array, signal: AbortSignal): Promise<EvaluateResult> {
    const request = { epoch: this.#configuredJob().ledger.epoch, manifest };
    return this.#resultOf<EvaluateResult>(
      (heard) => this.#options.client.evaluate(request, { signal: heard }),
      () => undefined,
      signal,
    );
  }

  /** What the trainer answers at the end, as long as it says how far it is. */
  async #resultOf<R>(
    call: (signal: AbortSignal) => AsyncIterable<Answer<R>>,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<R> {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      this.#options.lead?.assert();
      for await (const { kind } of call(AbortSignal.any([signal, silence.signal]))) {
        timer.refresh();
        if (kind.case === "progress") onProgress(kind.value);
        if (kind.case === "result") return kind.value;
      }
      throw new WhetstoneError("UNAVAILABLE", "the trainer ended a step without a result", { retry: "later" });
    } catch (error) {
      if (silence.signal.aborted && !signal.aborted)
        throw new WhetstoneError("UNAVAILABLE", `the trainer was silent for ${SILENCE_MS} ms`, {
          retry: "later",
          cause: error,
        });
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** A step that is done again leaves out what its record says, so that the weights after it are the same. */
  async #stepRequest(step: number): Promise<{ epoch: bigint; manifest: Uint8Array; dropped: DroppedEpisode[] }> {
    const { ledger } = this.#configuredJob();
    const manifest = await ledger.manifest(step);
    if (!manifest) throw new WhetstoneError("DATA_LOSS", `the ledger has no manifest of step ${step}`);
    return { epoch: ledger.epoch, manifest, dropped: await ledger.dropped(step) };
  }

  #configuredJob(): TrainedJob {
    if (!this.#job) throw new WhetstoneError("INTERNAL", "the trainer was used before it was configured");
    return this.#job;
  }

  /** Repeats what failed because the trainer was away; anything else is the caller's to know. */
  async #patiently<T>(work: () => Promise<T>, tell: Tell, signal: AbortSignal): Promise<T> {
    const backoffMs = exponentialBackoff({ initialMs: 200, maxMs: 2000 });
    for (let attempt = 1; ; attempt++) {
      const startedAt = performance.now();
      try {
        const done = await work();
        this.#lost = [];
        return done;
      } catch (error) {
        if (signal.aborted || !isTrainerAway(error)) throw error;
        this.#options.logger.warn("trainer_away", { error });
        const notice = noticeOf(error);
        if (notice?.reason === RANK_LOST) this.#lost = [notice];
        if (notice) tell([notice]);
        await sleep(backoffMs(attempt), signal);
        this.#waitedMs += performance.now() - startedAt;
      }
    }
  }
}

/** What people should know of why the trainer is away. Undefined: nothing that it has said itself. */
function noticeOf(error: unknown): Notice | undefined {
  const reason = error instanceof WhetstoneError ? error.context["reason"] : undefined;
  if (typeof reason !== "string" || !TOLD.includes(reason)) return undefined;
  const { message } = error as WhetstoneError;
  return create(NoticeSchema, { reason, message: message.endsWith(".") ? message : `${message}.` });
}

/** CANCELLED and not by our signal: a server that ends cuts the calls that it still has. */
function isTrainerAway(error: unknown): boolean {
  return ["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"].includes(WhetstoneError.from(error).code);
}
