// SPDX-License-Identifier: Apache-2.0
/** /tokenize and /detokenize, which SGLang has from 0.5.4 on, and of conversations later. */
import { z } from "zod";
import { parsedJson, RefusedCall } from "../wire/http-parts.ts";
import { errorText } from "./native.ts";
import type { SglangApi } from "./sglang-api.ts";

const TokensSchema = z.looseObject({ tokens: z.array(z.int()), count: z.int() });
const TextSchema = z.looseObject({ text: z.string() });

/** @param text  the body; its `model` is left out, since a load renames SGLang's */
export async function tokenize(api: SglangApi, text: string, maxModelLen: number): Promise<object> {
  const { model: _model, ...asked } = fieldsOf(text);
  const { tokens, count } = await ask(api, { path: "/tokenize", asked }, TokensSchema);
  return { count, max_model_len: maxModelLen, tokens };
}

export async function detokenize(api: SglangApi, text: string): Promise<object> {
  const { tokens } = fieldsOf(text);
  const asked = { tokens, skip_special_tokens: false };
  return { prompt: (await ask(api, { path: "/detokenize", asked }, TextSchema)).text };
}

function fieldsOf(text: string): Record<string, unknown> {
  const fields = parsedJson(text);
  if (typeof fields === "object" && fields !== null) return fields as Record<string, unknown>;
  throw new RefusedCall(400, "BadRequestError", "the body is no JSON object");
}

async function ask<T>(api: SglangApi, call: { path: string; asked: object }, schema: z.ZodType<T>): Promise<T> {
  const { status, text } = await api.post(call.path, call.asked);
  const { data } = schema.safeParse(parsedJson(text));
  if (status === 200 && data !== undefined) return data;
  if (status === 404) throw new RefusedCall(404, "NotFoundError", `SGLang has ${call.path} from 0.5.4 on`);
  throw new RefusedCall(status === 200 ? 500 : status, "BadRequestError", errorText(text));
}
