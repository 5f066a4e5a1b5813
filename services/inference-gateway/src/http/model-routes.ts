// SPDX-License-Identifier: Apache-2.0
import type { FastifyInstance, onRequestHookHandler } from "fastify";
import type { HttpContext } from "./http-context.ts";

/** What policies there are. @param onRequest  looks at each request before it is answered */
export function addModelRoutes(
  server: FastifyInstance,
  context: HttpContext,
  { prefix = "", onRequest = [] }: { prefix?: string; onRequest?: onRequestHookHandler[] },
): void {
  server.get(`${prefix}/v1/models`, { onRequest }, () => ({ object: "list", data: models(context) }));
  server.get(`${prefix}/v1/models/:model`, { onRequest }, (request) =>
    oneModel(context, (request.params as ModelParams).model),
  );
}

type ModelParams = { model: string };

interface Model {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  readonly max_model_len: number | null;
}

function models({ chat }: HttpContext): Model[] {
  return [...chat.codecs.keys()].map((id) => {
    const length = chat.fleet.contextOf(id);
    return { id, object: "model", created: 0, owned_by: "whetstone", max_model_len: length > 0 ? length : null };
  });
}

function oneModel(context: HttpContext, id: string): Model {
  const model = models(context).find((one) => one.id === id);
  if (model === undefined) throw context.chat.fleet.unknownPolicy(id);
  return model;
}
