// SPDX-License-Identifier: Apache-2.0
// Tools and their calls, as every dialect hands them on to chat templates.
import { badField } from "../completion/api-error.ts";
import type { Tools } from "../completion/request.ts";

/** The tools that the chat template prints. */
export function parseTools(value: unknown): Tools {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw badField("tools", "must be an array");
  for (const [i, tool] of value.entries()) {
    if (typeof tool !== "object" || tool === null || Array.isArray(tool))
      throw badField(`tools.${i}`, "must be an object");
  }
  return value.length === 0 ? undefined : value;
}

/** Arguments that are not a JSON object stay as the model wrote them. */
export function parseArguments(value: unknown): unknown {
  if (typeof value !== "string") return value ?? {};
  try {
    const parsed: unknown = JSON.parse(value);
    return typeof parsed === "object" && parsed !== null ? parsed : value;
  } catch {
    return value;
  }
}
