// SPDX-License-Identifier: Apache-2.0
import type { FastifyRequest } from "fastify";
import { badField } from "../completion/api-error.ts";
import { CLIENT_SAMPLING, type ClientSampling, type SamplingTerms } from "../completion/client-sampling.ts";
import { integer, parseDrawing, parseFields } from "../dialects/read-fields.ts";
import { parseJsonBody } from "./http-context.ts";
import type { HttpContext } from "./http-context.ts";

/**
 * What a session's calls are sampled with: `{"sampling": {"temperature", "top_p", "top_k", "min_p", "max_tokens"},
 * "client_sampling": "context" | "override" | "refuse"}`. Undefined: the body says nothing of it. @throws ApiError 400.
 */
export function parseTerms(context: HttpContext, request: FastifyRequest): SamplingTerms | undefined {
  if (request.body === undefined || request.body === "") return undefined;
  const fields = parseFields(parseJsonBody(context, request));
  const { sampling, client_sampling: policy = "context" } = fields;
  if (sampling === undefined) return undefined;
  if (typeof sampling !== "object" || sampling === null) throw badField("sampling", "must be an object");
  if (!CLIENT_SAMPLING.includes(policy as ClientSampling)) {
    throw badField("client_sampling", `must be one of ${CLIENT_SAMPLING.join(", ")}`);
  }
  const given = parseFields(sampling);
  return { sampling: parseDrawing(given, integer(given, "max_tokens", 1)), policy: policy as ClientSampling };
}
