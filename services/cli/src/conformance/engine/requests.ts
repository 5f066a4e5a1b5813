// SPDX-License-Identifier: Apache-2.0
/** T08 and the informational routes: how an engine answers what it cannot do, and what it says of itself. */
import { type Reply, shown } from "./engine-api.ts";
import { type Engine, type Fields, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";

const GENERATE = "/inference/v1/generate";
/** No vocabulary is as large. */
const NO_TOKEN = 2_000_000_000;

/** A request that is wrong in one place, by what is wrong; and the status that it must get. */
function badRequests({ facts }: Engine): Record<string, { readonly fields: Fields; readonly status: number }> {
  const one = facts.prompt[0] as number;
  const sampling = (more: Fields): Fields => ({ sampling_params: { max_tokens: 1, ...more } });
  return {
    "a prompt as long as the context": { fields: { token_ids: Array(facts.maxLength).fill(one) }, status: 400 },
    "an unknown model": { fields: { model: "whet-check-nobody" }, status: 404 },
    "a negative token": { fields: { token_ids: [-1] }, status: 400 },
    "a token outside the vocabulary": { fields: { token_ids: [NO_TOKEN] }, status: 400 },
    "no tokens": { fields: { token_ids: [] }, status: 400 },
    "tokens that are text": { fields: { token_ids: ["a"] }, status: 400 },
    "temperature 2.5": { fields: sampling({ temperature: 2.5 }), status: 400 },
    "top_p 0": { fields: sampling({ top_p: 0 }), status: 400 },
    "max_tokens 0": { fields: sampling({ max_tokens: 0 }), status: 400 },
    "21 alternatives": { fields: sampling({ logprobs: 21 }), status: 400 },
    'a cache_salt with "@"': { fields: { cache_salt: "policy@v1" }, status: 400 },
  };
}

const refusesBadRequests: EngineCheck = async (engine) => {
  const bad = badRequests(engine);
  for (const [what, { fields, status }] of Object.entries(bad))
    mustRefuse(what, await engine.api.post(GENERATE, engine.body(engine.facts.prompt, {}, fields)), status);
  mustRefuse("what is not JSON", await engine.api.post(GENERATE, "{not json"), 400);
  await mustRefuseStream(engine);
  const unknown = await engine.api.get("/whet-check-no-such-route");
  must(unknown.status === 404, `an unknown route answers ${unknown.status}, not 404`);
  await engine.generate(engine.facts.prompt, { max_tokens: 1, "whet-check-unknown": 1 }, { "whet-check-unknown": {} });
  return `${Object.keys(bad).length + 2} bad requests refused with the error object; unknown fields ignored`;
};

function mustRefuse(what: string, { status, body }: Reply, expected: number): void {
  must(status === expected, `${what}: answers ${status}, not ${expected}: ${shown(body)}`);
  const { error } = (body ?? {}) as { error?: Fields };
  const { message, type, code } = error ?? {};
  const isObject = typeof message === "string" && typeof type === "string" && error !== undefined && "param" in error;
  must(isObject, `${what}: no error object with message, type, param and code: ${shown(body)}`);
  must(code === status, `${what}: error.code is ${shown(code)} where the status is ${status}`);
}

/** vLLM says the error of a stream inside of it, with status 200. */
async function mustRefuseStream(engine: Engine): Promise<void> {
  const { fields } = badRequests(engine)["a prompt as long as the context"] ?? {};
  const body = engine.body(engine.facts.prompt, {}, { ...fields, stream: true });
  const { status, body: answer } = await engine.api.post(GENERATE, body);
  const isRefused = status === 400 || (status === 200 && String(answer).includes('"error"'));
  must(isRefused, `a streamed prompt as long as the context: answers ${status}: ${shown(answer)}`);
}

const tokenizes: EngineCheck = async (engine) => {
  const { model, maxLength } = engine.facts;
  const text = "Hello, wörld: 1, 2";
  const { count, tokens, max_model_len } = (await engine.ok("/tokenize", { model, prompt: text })).body as Fields;
  const isList = Array.isArray(tokens) && tokens.length > 0 && tokens.every((id) => Number.isInteger(id));
  must(isList, `tokens are ${shown(tokens)}`);
  must(count === tokens.length, `count is ${shown(count)} of ${tokens.length} tokens`);
  must(max_model_len === maxLength, `max_model_len is ${shown(max_model_len)} here, ${maxLength} in /v1/models`);
  const { prompt } = (await engine.ok("/detokenize", { model, tokens })).body as Fields;
  must(typeof prompt === "string" && prompt.includes(text), `${shown(text)} comes back as ${shown(prompt)}`);
  const messages = [{ role: "user", content: "Hello" }];
  const { status, body } = await engine.api.post("/tokenize", { model, messages });
  // A model without a chat template has nothing to render them with.
  if (status >= 400 && status < 500) return `text there and back; no conversations: ${shown(body)}`;
  const { tokens: rendered } = (body ?? {}) as Fields;
  must(status === 200 && Array.isArray(rendered), `of messages: answers ${status}: ${shown(body)}`);
  return `text there and back, and a conversation in ${rendered.length} tokens`;
};

const tellsOfItself: EngineCheck = async (engine) => {
  const { status } = await engine.api.get("/health");
  must(status === 200, `GET /health answers ${status}`);
  const { version } = ((await engine.api.get("/version")).body ?? {}) as Fields;
  must(typeof version === "string", `GET /version says ${shown(version)}`);
  const { world_size: size } = ((await engine.api.get("/get_world_size")).body ?? {}) as Fields;
  must(typeof size === "number" && size >= 1, `GET /get_world_size says ${shown(size)}`);
  const { success } = (await engine.ok("/reset_prefix_cache")).body as Fields;
  must(success === true, "POST /reset_prefix_cache does not say that it succeeded, and nothing runs");
  return `version ${version}, world size ${size}, label ${shown(await engine.label())}`;
};

export const REQUESTS: Readonly<Record<string, EngineCheck>> = {
  "T08 errors": refusesBadRequests,
  tokenize: tokenizes,
  "other routes": tellsOfItself,
};
