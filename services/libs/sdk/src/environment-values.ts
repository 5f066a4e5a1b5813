// SPDX-License-Identifier: Apache-2.0
import {
  type Awaitable,
  type Environment,
  isDone,
  type ResetOptions,
  type ResetResult,
  type StepOptions,
  type StepResult,
} from "./base-env.ts";
import { EpisodeError, type FailureClass } from "./failure.ts";
import { imageFault, type ImagePart, MAX_IMAGES, type SeenImage, withDigest } from "./images.ts";

// Whatever calls an environment calls it through these functions: the engines, the host of users' modules and the
// env-runner. So a wrong value fails its own episode, with words that name it, wherever the environment lives and whatever
// language it is written in; it never reaches the trainer.

/** @throws EpisodeError ENVIRONMENT naming what `reset` returned. */
export function resetEnvironment(environment: Environment, options: ResetOptions): Awaitable<ResetResult> {
  const at = atMethod(environment, "reset");
  return after(environment.reset(options), (returned) => readReset(returned, at));
}

/** @throws EpisodeError ENVIRONMENT naming what `step` returned. */
export function stepEnvironment(
  environment: Environment,
  action: unknown,
  options: StepOptions,
): Awaitable<StepResult> {
  const at = atMethod(environment, "step");
  return after(environment.step(action, options), (returned) => {
    const result = readStep(returned, at);
    if (result.reward !== undefined || !isDone(result) || environment.computeFinalReward !== undefined) return result;
    throw wrong(at, "ended the episode without a reward", "give `reward`, 0 where nothing was won, or grade the end");
  });
}

/** Undefined where the environment does not grade its end. @throws EpisodeError GRADER naming what it returned. */
export function gradeEnvironment(environment: Environment, options: StepOptions): Awaitable<number> | undefined {
  if (environment.computeFinalReward === undefined) return undefined;
  const at = atMethod(environment, "computeFinalReward");
  return after(environment.computeFinalReward(options), (returned) => {
    if (isReward(returned)) return returned;
    throw wrong(at, `returned ${shown(returned)}`, `it must be ${A_REWARD}`, "GRADER");
  });
}

/** The method, for words, and its function, for the line where it stands. */
interface At {
  readonly method: string;
  readonly culprit: object;
}

function atMethod(environment: Environment, method: "reset" | "step" | "computeFinalReward"): At {
  return { method, culprit: Reflect.get(environment, method) as object };
}

function readReset(returned: unknown, at: At): ResetResult {
  if (!isObject(returned))
    throw wrong(at, `returned ${shown(returned)}`, "it must be an object: { observation, info }");
  const { observation, images, info = {} } = returned as Partial<ResetResult>;
  checkData(observation, info, at);
  return { observation, ...readImages(images, at), info };
}

function readStep(returned: unknown, at: At): StepResult {
  const rule = "it must be an object: { observation, reward, terminated, truncated, info }";
  if (!isObject(returned)) throw wrong(at, `returned ${shown(returned)}`, rule);
  const {
    observation,
    images,
    reward,
    terminated = false,
    truncated = false,
    info = {},
  } = returned as Partial<StepResult>;
  checkData(observation, info, at);
  if (reward !== undefined && !isReward(reward))
    throw wrong(at, `returned reward ${shown(reward)}`, `it must be ${A_REWARD}, or absent while none is given`);
  for (const [name, value] of Object.entries({ terminated, truncated }))
    if (typeof value !== "boolean") throw wrong(at, `returned ${name} ${shown(value)}`, "it must be true or false");
  return { observation, ...readImages(images, at), reward, terminated, truncated, info };
}

/** Pictures with their digests; most environments have none. */
function readImages(images: unknown, at: At): { readonly images?: readonly SeenImage[] } {
  if (images === undefined || (Array.isArray(images) && images.length === 0)) return {};
  if (!Array.isArray(images)) throw wrong(at, `returned images ${shown(images)}`, "it must be a list of pictures");
  if (images.length > MAX_IMAGES)
    throw wrong(at, `returned ${images.length} images`, `${MAX_IMAGES} at most are taken`);
  for (const [i, image] of images.entries()) {
    const fault = imageFault(image);
    if (fault !== undefined) throw wrong(at, "returned a bad picture", `images[${i}]${fault}`);
  }
  return { images: (images as ImagePart[]).map(withDigest) };
}

function checkData(observation: unknown, info: unknown, at: At): void {
  if (observation === undefined)
    throw wrong(at, "returned no observation", 'it must be a JSON value, "" where there is nothing to see');
  if (!isObject(info)) throw wrong(at, `returned info ${shown(info)}`, "it must be an object");
  const fault = jsonFault(observation, "observation") ?? jsonFault(info, "info");
  if (fault !== undefined) throw wrong(at, `returned ${fault}`, "it must be a JSON value");
}

function wrong({ method, culprit }: At, what: string, rule: string, failureClass: FailureClass = "ENVIRONMENT") {
  return new EpisodeError(failureClass, `the environment's ${method}() ${what}: ${rule}`, { culprit });
}

/** Far above any reward that means something, and far below where sums and squares of rewards overflow. */
const MAX_REWARD = 1e12;
export const A_REWARD = "a finite number";

export function isReward(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= MAX_REWARD;
}

/** Deeper values cannot be read back from a stored episode: a parser of protocol buffers stops at 100 messages. */
const MAX_DEPTH = 24;

/** What of a value is no JSON, as words that begin with its path. A property that is undefined counts as absent. */
export function jsonFault(value: unknown, path: string, depth = 0): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : `${path} ${value}`;
    case "object":
      return value === null ? undefined : faultInside(value, path, depth);
    default:
      return `${path} ${shown(value)}`;
  }
}

function faultInside(value: object, path: string, depth: number): string | undefined {
  if (depth === MAX_DEPTH) return `${path.slice(0, 60)}… nested deeper than ${MAX_DEPTH} levels, or in itself`;
  if (value instanceof Map || value instanceof Set || value instanceof Date || ArrayBuffer.isView(value))
    return `${path} ${shown(value)}`;
  if (Array.isArray(value)) {
    for (const [i, entry] of value.entries()) {
      const fault = jsonFault(entry, `${path}[${i}]`, depth + 1);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }
  for (const [name, entry] of Object.entries(value)) {
    const fault = entry === undefined ? undefined : jsonFault(entry, `${path}.${name}`, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

const SHOWN_CHARACTERS = 40;

/** A value as people recognise it: `NaN`, `"1"`, `a function`. */
export function shown(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);
    case "bigint":
      return `${value}n (a bigint)`;
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
    case "object":
      if (value === null) return "null";
      return Array.isArray(value) ? "a list" : `an object (${nameOf(value)})`;
    default:
      return String(value);
  }
}

function nameOf(value: object): string {
  const { constructor } = value as { readonly constructor?: unknown };
  return typeof constructor === "function" ? constructor.name : "Object";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Work that is not async costs no promise. */
function after<T, U>(returned: Awaitable<T>, read: (value: T) => U): Awaitable<U> {
  return isThenable(returned) ? Promise.resolve(returned).then(read) : read(returned);
}

function isThenable<T>(value: Awaitable<T>): value is Promise<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
