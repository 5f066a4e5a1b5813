// SPDX-License-Identifier: Apache-2.0
// How many slots are open (I8). Additive increase while slots are wanted and engines have no queue to speak of,
// multiplicative decrease when requests queue or the cache of keys and values is full. The environment's slots are known
// exactly, so they are a cap and need no search.

export interface LimitSettings {
  /** Fewest open slots. */
  readonly floor: number;
  /** Most open slots; where it starts. */
  readonly ceiling: number;
  /** Requests that may wait for each that runs. A queue costs latency, an empty one idle engines: well above 0. */
  readonly targetWaiting: number;
  /** Share of the engines' cache beyond which a queue means that sequences evict each other, (0, 1]. */
  readonly targetKvUse: number;
}

/** Requests on the engines that serve, as the gateway reports them. */
export interface EngineLoad {
  /** Engines that take requests. 0: weights are being switched, which says nothing about load. */
  readonly serving: number;
  readonly running: number;
  readonly waiting: number;
  /** Of the fullest engine, [0, 1]. Undefined: no engine says. */
  readonly kvUse: number | undefined;
}

export interface LoadSample {
  /** Episodes that play. */
  readonly playing: number;
  /** Tasks here that wait for a slot. */
  readonly queued: number;
  /** Undefined: not known; then nothing changes. */
  readonly engines: EngineLoad | undefined;
  /** Slots of the environments that are not taken by others. Undefined: not known, or jobs play that need none. */
  readonly environmentSlots: number | undefined;
}

/** What holds the limit below the ceiling. */
export type LimitReason = "none" | "engine_queue" | "engine_cache" | "environment_slots";

export interface LimitState {
  /** What the engines allow; fractional. */
  readonly engineLimit: number;
  /** Samples in a row that showed pressure. */
  readonly strained: number;
  readonly engineReason: Exclude<LimitReason, "environment_slots">;
  /** Slots to be open now. */
  readonly open: number;
  readonly reason: LimitReason;
}

const DECREASE = 0.8;
/** Added to the limit at each sample, as a share of the ceiling. */
const INCREASE = 0.05;
/** Samples that must agree: after a switch of weights all requests come at once, which is over in a moment. */
const PATIENCE = 3;
/** A queue shorter than this, for each engine, is no pressure however little runs. */
const SHORT_QUEUE = 32;
/** Below this share of the target the queue is short enough for more. */
const ROOM = 0.5;
/** Requests that wait for each that runs, above which a full cache is what they wait for. */
const CACHE_QUEUE = 0.1;

export function initialLimit({ ceiling }: LimitSettings): LimitState {
  return { engineLimit: ceiling, strained: 0, engineReason: "none", open: ceiling, reason: "none" };
}

/** The limit after one more sample. */
export function adaptLimit(state: LimitState, sample: LoadSample, settings: LimitSettings): LimitState {
  return withEnvironment(afterEngines(state, sample, settings), sample, settings);
}

type EngineState = Pick<LimitState, "engineLimit" | "strained" | "engineReason">;

function afterEngines(state: EngineState, sample: LoadSample, settings: LimitSettings): EngineState {
  const { engines } = sample;
  if (engines === undefined || engines.serving === 0) return state;
  const pressure = pressureOf(engines, settings);
  if (pressure === "none") return { ...grown(state, sample, settings), strained: 0 };
  if (state.strained + 1 < PATIENCE) return { ...state, strained: state.strained + 1 };
  // A limit that is far above what plays would take many steps to bite.
  const used = Math.min(state.engineLimit, Math.max(sample.playing, settings.floor));
  return { engineLimit: Math.max(settings.floor, used * DECREASE), strained: 0, engineReason: pressure };
}

function pressureOf({ serving, running, waiting, kvUse = 0 }: EngineLoad, settings: LimitSettings) {
  if (waiting > Math.max(settings.targetWaiting * running, SHORT_QUEUE * serving)) return "engine_queue";
  if (kvUse > settings.targetKvUse && waiting > CACHE_QUEUE * running) return "engine_cache";
  return "none";
}

function grown(state: EngineState, { engines, queued }: LoadSample, settings: LimitSettings): EngineState {
  const { serving = 0, running = 0, waiting = 0 } = engines ?? {};
  const hasRoom = waiting <= ROOM * Math.max(settings.targetWaiting * running, SHORT_QUEUE * serving);
  if (queued === 0 || !hasRoom) return state;
  const engineLimit = Math.min(settings.ceiling, state.engineLimit + Math.max(1, INCREASE * settings.ceiling));
  return { ...state, engineLimit, engineReason: engineLimit === settings.ceiling ? "none" : state.engineReason };
}

function withEnvironment(state: EngineState, { environmentSlots }: LoadSample, settings: LimitSettings): LimitState {
  const byEngines = Math.floor(state.engineLimit);
  const cap = environmentSlots ?? settings.ceiling;
  // One stays open: whether a slot has become free is seen by trying.
  if (cap < byEngines) return { ...state, open: Math.max(1, cap), reason: "environment_slots" };
  return { ...state, open: byEngines, reason: byEngines === settings.ceiling ? "none" : state.engineReason };
}
