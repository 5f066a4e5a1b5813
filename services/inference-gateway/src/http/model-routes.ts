// SPDX-License-Identifier: Apache-2.0
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from "fastify";
import type { AccessOf, HttpContext } from "./http-context.ts";

interface RouteOptions {
  readonly accessOf: AccessOf;
  readonly prefix?: string;
  /** Looks at each request before it is answered. */
  readonly onRequest?: onRequestHookHandler[];
}

/** What policies there are; for the holder of a served name's key, that name. */
export function addModelRoutes(
  server: FastifyInstance,
  context: HttpContext,
  { accessOf, prefix = "", onRequest = [] }: RouteOptions,
): void {
  const modelsFor = (request: FastifyRequest): Model[] => {
    const serving = accessOf(context, request).holder?.serving;
    return serving ? [modelOf(context, serving.name, serving.policy)] : models(context);
  };
  server.get(`${prefix}/v1/models`, { onRequest }, (request) => ({ object: "list", data: modelsFor(request) }));
  server.get(`${prefix}/v1/models/:model`, { onRequest }, (request) => {
    const { model: id } = request.params as ModelParams;
    const model = modelsFor(request).find((one) => one.id === id);
    if (model === undefined) throw context.chat.fleet.unknownPolicy(id);
    return model;
  });
}

type ModelParams = { model: string };

interface Model {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  readonly max_model_len: number | null;
}

function models(context: HttpContext): Model[] {
  return [...context.chat.codecs.keys()].map((policy) => modelOf(context, policy, policy));
}

function modelOf({ chat }: HttpContext, id: string, policy: string): Model {
  const length = chat.fleet.contextOf(policy);
  return { id, object: "model", created: 0, owned_by: "whetstone", max_model_len: length > 0 ? length : null };
}
