// SPDX-License-Identifier: Apache-2.0
// Whether an answer is one that a client of the dialect can read.
import type { Endpoint } from "./sound-requests.ts";

export interface Said {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

type Json = Record<string, unknown>;

/** What is wrong with an answer; undefined: it is right, or refuses in the dialect's own form. */
export function faultOf({ path, form }: Pick<Endpoint, "path" | "form">, said: Said): string | undefined {
  const { status, contentType, text } = said;
  if (status === 204 || (status >= 200 && status < 300 && contentType.includes("protobuf"))) return undefined;
  if (status === 200 && contentType.startsWith("text/event-stream")) return streamFault(path, text);
  const body = parsed(text);
  if (body === undefined) return `HTTP ${status}, and no JSON: ${text.slice(0, MAX_SHOWN)}`;
  if (status === 200 ? isAnswer(path, body) : isRefusal(status) && isError(form, body)) return undefined;
  return `HTTP ${status}, or in another form: ${text.slice(0, MAX_SHOWN)}`;
}

const MAX_SHOWN = 300;

/** Anything else would say that it is the gateway's fault. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500;
}

function isError(form: Endpoint["form"], body: Json): boolean {
  const error = body["error"] as Json | undefined;
  if (typeof error?.["message"] !== "string" || typeof error["type"] !== "string") return false;
  if (form === "anthropic") return body["type"] === "error";
  return typeof error["code"] === "string" && (error["param"] === null || typeof error["param"] === "string");
}

function isAnswer(path: string, body: Json): boolean {
  const choices = body["choices"] as { finish_reason?: unknown; message?: Json; text?: unknown }[] | undefined;
  switch (path) {
    case "/v1/chat/completions":
      return (
        choices?.every((one) => typeof one.finish_reason === "string" && one.message?.["role"] === "assistant") === true
      );
    case "/v1/completions":
      return choices?.every((one) => typeof one.finish_reason === "string" && typeof one.text === "string") === true;
    case "/v1/responses":
      return /^(completed|incomplete)$/.test(String(body["status"])) && Array.isArray(body["output"]);
    case "/v1/messages":
      return body["type"] === "message" && typeof body["stop_reason"] === "string" && Array.isArray(body["content"]);
    default:
      return body["object"] === "list" || body["object"] === "model";
  }
}

function streamFault(path: string, text: string): string | undefined {
  const events = text.split("\n\n").filter((event) => event !== "");
  const data = events.map((event) => event.replace(/^event: .*\n/, "").replace(/^data: /, ""));
  const isOpenAi = path.endsWith("/completions");
  if (isOpenAi && data.pop() !== "[DONE]") return "a stream without [DONE]";
  const bodies = data.map(parsed);
  if (bodies.includes(undefined)) return "a stream with an event that is no JSON";
  const failed = bodies.find((body) => body?.["error"] !== undefined && body["error"] !== null);
  const type = String(bodies.at(-1)?.["type"]);
  if (failed !== undefined || type === "error")
    return `a stream that fails: ${JSON.stringify(failed ?? bodies.at(-1))}`;
  if (path === "/v1/messages" && type !== "message_stop") return `a stream that ends with ${type}`;
  if (path === "/v1/responses" && !/^response\.(completed|incomplete)$/.test(type))
    return `a stream that ends with ${type}`;
  return undefined;
}

function parsed(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}
