// SPDX-License-Identifier: Apache-2.0
// The thread that works on long texts for one codec. CodecThread starts it and says what to do, one thing at a time.
import { parentPort, workerData } from "node:worker_threads";
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { TemplateVariables } from "../completion/request.ts";
import { buildCodec } from "./codec-files.ts";
import type { CodecFiles } from "./codec-files.ts";

/** Work for the thread; `conversation` is JSON, which crosses the border faster than objects do. */
export type ThreadTask = { readonly kind: "encode"; readonly text: string } | RenderTask;

export interface RenderTask {
  readonly kind: "render" | "render-closed";
  readonly conversation: string;
}

/** What a RenderTask carries; JSON has no undefined. */
export type Rendered = [messages: TemplateMessage[], tools: unknown[] | null, variables: TemplateVariables | null];

export type ThreadResult =
  | { readonly ids: Uint32Array }
  | { readonly text: string }
  | { readonly refused: Pick<ApiError, "code" | "reason" | "message" | "param"> }
  | { readonly failed: string };

const codec = buildCodec(workerData as CodecFiles);

function work(task: ThreadTask): ThreadResult {
  if (task.kind === "encode") return { ids: Uint32Array.from(codec.encode(task.text)) };
  const [messages, tools, variables] = JSON.parse(task.conversation) as Rendered;
  if (task.kind === "render-closed") return { text: codec.renderClosed(messages, tools ?? undefined) };
  return { text: codec.render(messages, tools ?? undefined, variables ?? undefined) };
}

function tryWork(task: ThreadTask): ThreadResult {
  try {
    return work(task);
  } catch (error) {
    if (!(error instanceof ApiError)) return { failed: error instanceof Error ? error.message : String(error) };
    const { code, reason, message, param } = error;
    return { refused: { code, reason, message, param } };
  }
}

parentPort?.on("message", (task: ThreadTask) => {
  const result = tryWork(task);
  parentPort?.postMessage(result, "ids" in result ? [result.ids.buffer as ArrayBuffer] : []);
});
