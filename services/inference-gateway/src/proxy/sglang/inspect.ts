// SPDX-License-Identifier: Apache-2.0
/** What a release of SGLang has to have before it may sample for a job, and whether this one does. */
import { RefusedCall } from "../wire/http-parts.ts";
import { type Entry, type Meta, ModelListSchema, OutputSchema, type ServerInfo } from "./native.ts";
import type { SglangApi } from "./sglang-api.ts";

export interface SglangFacts {
  readonly version: string;
  /** The name that it serves its model by; a load renames it, and callers go on with this one. */
  readonly model: string;
  /** Of the model that it was started with. */
  readonly folder: string;
  readonly maxModelLen: number;
  readonly worldSize: number;
  /** Of its weights, now. */
  readonly label: string;
}

/** Routes by a release that has them; older ones than 0.4.9 were not looked at. */
const ROUTES: Readonly<Record<string, string>> = {
  "/abort_request": "0.4.9",
  "/update_weights_from_disk": "0.4.9",
  "/pause_generation": "0.4.9",
  "/continue_generation": "0.4.9",
  "/update_weight_version": "0.5.1",
};
/** Has the fields that are sent and that older ones refuse (sampling_seed) or ignore (extra_key, by which caches are kept apart). */
const OLDEST = [0, 5, 3] as const;
const PROBE = [1, 2, 3];
const ALTERNATIVES = 8;
/** It compiles when log-probabilities are first asked of it. */
const PROBE_MS = 180_000;
/** Below this two tokens are as likely as each other, and say nothing about temperature. */
const LEAST_DISTANCE = 1e-3;

/** @throws RefusedCall that names all that is missing, and where it is to be had */
export async function inspect(api: SglangApi): Promise<SglangFacts> {
  const [info, server] = [await api.modelInfo(), await api.serverInfo()];
  const lacks = [...lacksOf(server), ...(await missingRoutes(api)), ...(await missingMetrics(api))];
  if (typeof info.weight_version !== "string") lacks.push("weight_version in /model_info (from 0.5.1 on)");
  if (lacks.length === 0) {
    // Who paused it before this proxy began is not known here. Weights without a label are known by their label (control.ts).
    await api.mustPost("/continue_generation", {});
    lacks.push(...(await lacksOfAnswers(api)));
  }
  if (lacks.length > 0) throw refused(server.version, lacks);
  const { data } = await api.getParsed("/v1/models", ModelListSchema);
  const { id: model, max_model_len: maxModelLen } = data[0] as (typeof data)[0];
  const worldSize = server.tp_size * server.pp_size * server.dp_size;
  const { model_path: folder, weight_version: label } = info;
  return { version: server.version, model, folder, maxModelLen, worldSize, label: label ?? "" };
}

function refused(version: string, lacks: readonly string[]): RefusedCall {
  const which = version === "" ? "this SGLang" : `SGLang ${version}`;
  return new RefusedCall(501, "NotImplementedError", `${which} cannot sample for jobs; it lacks ${lacks.join("; ")}`);
}

function lacksOf({ version, tokenizer_worker_num: workers }: ServerInfo): string[] {
  const lacks: string[] = [];
  if (isOlder(version)) lacks.push(`sampling_seed and extra_key in requests (from ${OLDEST.join(".")} on)`);
  // Each has a label of its own, and in some releases a pause reaches one of them only.
  if (workers > 1) lacks.push(`one process that knows pause and label (--tokenizer-worker-num 1, not ${workers})`);
  return lacks;
}

/** A version that is no number, as of a build of one's own, is taken for a new one. */
function isOlder(version: string): boolean {
  const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number);
  const differs = parts?.findIndex((part, i) => part !== OLDEST[i]) ?? -1;
  return differs >= 0 && (parts?.[differs] ?? 0) < (OLDEST[differs] ?? 0);
}

async function missingRoutes(api: SglangApi): Promise<string[]> {
  const lacks: string[] = [];
  for (const [path, since] of Object.entries(ROUTES))
    if (!(await api.hasRoute(path))) lacks.push(`POST ${path} (from ${since} on)`);
  return lacks;
}

async function missingMetrics(api: SglangApi): Promise<string[]> {
  const { status } = await api.get("/metrics");
  return status === 200 ? [] : ["/metrics (start it with --enable-metrics)"];
}

async function lacksOfAnswers(api: SglangApi): Promise<string[]> {
  const [warm, cold] = [await sample(api, 1), await sample(api, 0.5)];
  const lacks: string[] = [];
  if (warm?.output_token_logprobs?.length !== 1)
    lacks.push("token ids and log-probabilities in meta_info.output_token_logprobs");
  if (warm?.weight_version === undefined) lacks.push("weight_version in meta_info (from 0.5.1 on)");
  if (!isTwiceAsSharp(warm, cold))
    lacks.push(
      "log-probabilities after temperature (start it without SGLANG_RETURN_ORIGINAL_LOGPROB, which was RETURN_ORIGINAL_LOGPROB before 0.5.4)",
    );
  return lacks;
}

async function sample(api: SglangApi, temperature: number): Promise<Meta | undefined> {
  const body = {
    ...{ input_ids: PROBE, return_logprob: true, logprob_start_len: -1, top_logprobs_num: ALTERNATIVES },
    sampling_params: { temperature, max_new_tokens: 1, ignore_eos: true },
  };
  const { status, text } = await api.post("/generate", body, AbortSignal.timeout(PROBE_MS));
  const output = status === 200 ? OutputSchema.safeParse(JSON.parse(text)).data : undefined;
  return output?.meta_info;
}

/** At half the temperature log-probabilities lie twice as far apart, if they are those after it. */
function isTwiceAsSharp(warm: Meta | undefined, cold: Meta | undefined): boolean {
  const [one, other] = [likelihoods(warm), likelihoods(cold)];
  const ids = [...one.keys()].filter((id) => other.has(id));
  const [first = -1, last = -1] = [ids[0], ids.at(-1)];
  const distance = (of: ReadonlyMap<number, number>): number => (of.get(first) ?? NaN) - (of.get(last) ?? NaN);
  const [at1, atHalf] = [distance(one), distance(other)];
  if (Math.abs(at1) < LEAST_DISTANCE) return true;
  return Math.abs(atHalf / at1 - 2) < 0.1;
}

function likelihoods(meta: Meta | undefined): Map<number, number> {
  const entries = meta?.output_top_logprobs?.[0] ?? [];
  const finite = entries.filter((entry): entry is Entry & [number, number] => entry[0] !== null);
  return new Map(finite.map(([logprob, id]) => [id, logprob]));
}
