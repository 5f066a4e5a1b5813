// SPDX-License-Identifier: Apache-2.0
/** What may pass to an engine whose own routes ask nobody who they are. Everything that is not listed is refused. */

import type { Refusal } from "../http/refusal.ts";

export type Port = "data" | "control";

const DATA = [
  "POST /inference/v1/generate",
  "POST /v1/chat/completions/render",
  "POST /v1/completions",
  "POST /tokenize",
  "POST /detokenize",
  "GET /v1/models",
  "GET /health",
  "GET /ping",
  "GET /version",
  "GET /load",
  "GET /metrics",
];
const CONTROL = [
  "POST /pause",
  "POST /resume",
  "GET /is_paused",
  "POST /abort_requests",
  "POST /inference/v1/abort_requests",
  "POST /reset_prefix_cache",
  "GET /weight_info",
  "POST /update_weight_version",
  "GET /get_world_size",
  "POST /collective_rpc",
  "POST /stage_weights",
  "GET /server_info",
  "POST /init_weight_transfer_engine",
  "POST /start_weight_update",
  "POST /update_weights",
  "POST /finish_weight_update",
];
const KNOWN = new Set([...DATA, ...CONTROL].map((route) => route.slice(route.indexOf(" ") + 1)));
const ALLOWED: Record<Port, ReadonlySet<string>> = { data: new Set(DATA), control: new Set([...DATA, ...CONTROL]) };
const STEERING = new Set(CONTROL.filter((route) => route.startsWith("POST ")));

/** Undefined: it may pass. `path` is without its query. */
export function refusalOf(port: Port, method: string, path: string): Refusal | undefined {
  if (ALLOWED[port].has(`${method} ${path}`)) return undefined;
  if (!KNOWN.has(path)) return { status: 404, type: "NotFoundError", message: `no route ${path}` };
  if (port === "data" && !DATA.some((route) => route.endsWith(` ${path}`)))
    return { status: 403, type: "Forbidden", message: `${path} is served on the control port only` };
  return { status: 405, type: "MethodNotAllowed", message: `${method} is not a method of ${path}` };
}

/** Whether a call changes the engine, so that only the leading controller may make it. */
export function isSteering(method: string, path: string): boolean {
  return STEERING.has(`${method} ${path}`);
}
