// SPDX-License-Identifier: Apache-2.0
/** Looks at an engine before it is checked: whether it is one, whether it may be disturbed, and how fast it samples. */
import { CliError, EXIT } from "../../cli-error.ts";
import { type Answer, readAnswer } from "./answer.ts";
import { CallError, type EngineApi, messageOf, type Reply, shown } from "./engine-api.ts";
import type { EngineFacts, Fields } from "./engine.ts";
import { metricSum } from "./metric-text.ts";

export interface FoundEngine {
  readonly facts: EngineFacts;
  /** What it must have again afterwards; undefined: it does not say. */
  readonly label: string | undefined;
  /** What it answers to the prompt, greedily. */
  readonly answer: Answer;
}

interface ModelCard {
  readonly id?: string;
  readonly max_model_len?: number | null;
}

/** vLLM compiles when log-probabilities are first asked of it. */
const FIRST_ANSWER_MS = 180_000;
export const FIRST_TOKENS = 32;
/** How long a long answer is to take, in seconds: more than a call takes to reach an engine that is far away. */
const LONG_ANSWER_S = 1.5;
const LONG_ANSWER_TOKENS = { least: 128, most: 8_192 };
const PROMPT_TOKENS = 24;
const LONG_PROMPT_TOKENS = 320;
const TEXT =
  "The engine samples one token after the other, and each of them depends on all that came before it. ".repeat(40);

/** @throws CliError with exit code 2 where it cannot be checked */
export async function openEngine(api: EngineApi, { isForced }: { readonly isForced: boolean }): Promise<FoundEngine> {
  try {
    await mustBeWell(api);
    const { id: model, max_model_len: maxLength } = await modelCard(api);
    if (!isForced) await refuseBusy(api);
    const label = await takeOver(api);
    if (isForced) await endWhatRuns(api);
    const ids = await tokensOf(api, model);
    const prompt = ids.slice(0, PROMPT_TOKENS);
    const longPrompt = ids.slice(0, Math.min(LONG_PROMPT_TOKENS, Math.floor(maxLength / 2)));
    const { answer, rate } = await firstAnswer(api, model, prompt);
    const room = maxLength - prompt.length - 1;
    const wanted = Math.max(
      LONG_ANSWER_TOKENS.least,
      Math.min(LONG_ANSWER_TOKENS.most, Math.round(rate * LONG_ANSWER_S)),
    );
    return { facts: { model, maxLength, prompt, longPrompt, longAnswer: Math.min(wanted, room) }, label, answer };
  } catch (error) {
    throw error instanceof CallError ? cannotCheck(error.message, error) : error;
  }
}

/** What a user can do something about. */
function cannotCheck(reason: string, cause?: unknown): CliError {
  return new CliError("CANNOT_CHECK", reason, { exitCode: EXIT.badInput, cause });
}

async function mustBeWell(api: EngineApi): Promise<void> {
  const { status } = await api.get("/health");
  if (status !== 200) throw cannotCheck(`GET /health answered ${status}: no engine that is well is there`);
}

async function modelCard(api: EngineApi): Promise<{ id: string; max_model_len: number }> {
  const { status, body } = await api.get("/v1/models");
  if (status === 401) throw cannotCheck("it asks for a key: set WHETSTONE_API_KEY");
  const { data } = (body ?? {}) as { data?: readonly ModelCard[] };
  const { id, max_model_len } = data?.[0] ?? {};
  if (status === 200 && typeof id === "string" && typeof max_model_len === "number") return { id, max_model_len };
  throw cannotCheck(`GET /v1/models answered ${status} and names no model with its max_model_len: ${shown(body)}`);
}

const FORCE = "--force checks it all the same, and ends what runs";

/** The checks pause it, abort what runs and change its label. */
async function refuseBusy(api: EngineApi): Promise<void> {
  const { status, body } = await api.get("/metrics");
  const [running, waiting] = ["num_requests_running", "num_requests_waiting"].map((name) =>
    metricSum(String(body), name),
  );
  if (running === undefined || waiting === undefined)
    throw cannotCheck(`GET /metrics answered ${status} and does not say what runs; ${FORCE}`);
  if (running + waiting > 0) throw cannotCheck(`${running} requests run and ${waiting} wait; ${FORCE}`);
  const { is_paused: isPaused } = ((await api.get("/is_paused")).body ?? {}) as Fields;
  if (isPaused === true) throw cannotCheck(`it is paused: somebody is switching its weights; ${FORCE}, and resumes it`);
}

/** Resumes it, which changes nothing where it runs, and shows whether it obeys. @returns its label */
async function takeOver(api: EngineApi): Promise<string | undefined> {
  const { status, body } = await api.post("/resume");
  if (isError(body, "StaleEpoch"))
    throw cannotCheck(`it obeys a controller (${shown(body)}): check one that belongs to no fleet`);
  if (status === 403) throw cannotCheck(`it may not be steered here: ${messageOf(body)}`);
  const { weight_version: label } = ((await api.get("/weight_info")).body ?? {}) as Fields;
  return typeof label === "string" ? label : undefined;
}

async function endWhatRuns(api: EngineApi): Promise<void> {
  await api.post("/pause?mode=abort");
  await api.post("/resume");
}

function isError(body: unknown, type: string): boolean {
  return (body as { error?: Fields } | undefined)?.error?.["type"] === type;
}

/** In its own tokens, so that they are of its vocabulary. Where it has no /tokenize, a check says so; these go anywhere. */
async function tokensOf(api: EngineApi, model: string): Promise<readonly number[]> {
  const { status, body } = await api.post("/tokenize", { model, prompt: TEXT });
  const { tokens } = (body ?? {}) as { tokens?: unknown };
  const isList = status === 200 && Array.isArray(tokens) && tokens.length >= PROMPT_TOKENS;
  return isList ? (tokens as number[]) : Array.from({ length: LONG_PROMPT_TOKENS }, (_, i) => 65 + ((i * 7) % 26));
}

/** The first one warms it up, the second is timed. @returns its tokens a second */
async function firstAnswer(
  api: EngineApi,
  model: string,
  prompt: readonly number[],
): Promise<{ answer: Answer; rate: number }> {
  const ask = async (): Promise<Reply> => {
    const sampling_params = { temperature: 0, max_tokens: FIRST_TOKENS, logprobs: 2, ignore_eos: true };
    const body = { model, token_ids: prompt, sampling_params };
    return await api.post("/inference/v1/generate", body, Math.max(FIRST_ANSWER_MS, api.timeoutMs));
  };
  const { status, body } = await ask();
  if (status !== 200) throw cannotCheck(`POST /inference/v1/generate answered ${status}: ${messageOf(body)}`);
  const began = performance.now();
  const answer = readAnswer((await ask()).body);
  return { answer, rate: answer.ids.length / ((performance.now() - began) / 1000) };
}
