// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";
import type { StepOptions } from "../base-env.ts";
import { A_REWARD, isReward, jsonFault, shown } from "../environment-values.ts";
import { EpisodeError } from "../failure.ts";
import type {
  BeginOptions,
  BrowserTask,
  BrowserTaskEnvironment,
  Judgement,
  PageRequest,
  PageState,
  ServedPage,
} from "./browser-task.ts";

// Whatever calls a task of a browser calls it through these functions, so that a wrong value fails its own episode, with words that
// name it.

const MAX_READS = 20;
const MAX_PAGE_BYTES = 16 * 2 ** 20;

const Begun = z.looseObject({
  goal: z.string().min(1),
  url: z.url({ protocol: /^https?$/u }),
  serve: z.custom(isFunction, "must be a function").optional(),
  reads: z
    .record(z.string(), z.string().min(1))
    .refine((reads) => Object.keys(reads).length <= MAX_READS, `has ${MAX_READS} entries at most`)
    .optional(),
  settings: z.record(z.string(), z.unknown()).optional(),
  callTimeoutMs: z.number().int().min(1).max(600_000).optional(),
  check: z.custom(isFunction, "must be a function"),
});

const Answer = z.strictObject({
  status: z.number().int().min(200).max(599).default(200),
  headers: z
    .record(z.string().regex(/^[\w-]+$/u), z.string().regex(/^[\t\u0020-\u007e]*$/u))
    .default({ "content-type": "text/html; charset=utf-8" }),
  body: z.union([z.string(), z.instanceof(Uint8Array)]),
});

/** @throws EpisodeError ENVIRONMENT naming what `create` returned. */
export async function beginBrowserTask(
  { begin }: Pick<BrowserTaskEnvironment, "begin">,
  options: BeginOptions,
): Promise<BrowserTask> {
  const task: unknown = await begin(options);
  const { error } = Begun.safeParse(task);
  if (error !== undefined) throw wrong("create", firstFault(error));
  return task as BrowserTask;
}

/** @throws EpisodeError ENVIRONMENT naming what `check` returned. */
export async function checkPage(task: BrowserTask, page: PageState, options: StepOptions): Promise<Judgement> {
  const judged: unknown = await task.check(page, options);
  const fault = judgementFault(judged);
  if (fault !== undefined) throw wrong("check", fault, Reflect.get(task, "check"));
  return judged as Judgement;
}

/** @throws EpisodeError ENVIRONMENT naming what `serve` returned. */
export async function servePage(task: BrowserTask, request: PageRequest, options: StepOptions): Promise<ServedPage> {
  const answer: unknown = await task.serve?.(request, options);
  const { data, error } = Answer.safeParse(typeof answer === "string" ? { body: answer } : answer);
  if (error !== undefined) throw wrong("serve", firstFault(error), task.serve);
  if (data.body.length > MAX_PAGE_BYTES)
    throw wrong("serve", `a body of ${data.body.length} bytes; ${MAX_PAGE_BYTES} at most are taken`, task.serve);
  return data;
}

function judgementFault(judged: unknown): string | undefined {
  if (typeof judged !== "object" || judged === null) return `${shown(judged)}: it must be { reward, done }`;
  const { reward, done, info = {} } = judged as Partial<Judgement>;
  if (!isReward(reward)) return `reward ${shown(reward)}: it must be ${A_REWARD}`;
  if (typeof done !== "boolean") return `done ${shown(done)}: it must be true or false`;
  const fault = jsonFault(info, "info");
  return fault && `${fault}: it must be a JSON value`;
}

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

function firstFault({ issues: [issue] }: z.ZodError): string {
  const at = (issue?.path ?? []).join(".");
  return `a value that is wrong${at === "" ? "" : ` at ${at}`}: ${issue?.message ?? ""}`;
}

function wrong(method: string, what: string, culprit?: object): EpisodeError {
  const message = `the browser task's ${method}() returned ${what}`;
  return new EpisodeError("ENVIRONMENT", message, culprit === undefined ? {} : { culprit });
}
