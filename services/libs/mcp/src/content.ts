// SPDX-License-Identifier: Apache-2.0
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/client";
import { ToolError } from "@whetstone/tools";

/** What a result is to the model: its texts, and what it holds as data where no text says it. @throws ToolError naming a part that no text can show */
export function textOf(tool: string, { content, structuredContent }: CallToolResult): string {
  const texts = content.map((part) => partText(tool, part)).filter((text) => text !== "");
  if (texts.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return texts.join("\n");
}

function partText(tool: string, part: ContentBlock): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "resource_link":
      return `${part.name}: ${part.uri}`;
    case "resource":
      if ("text" in part.resource) return `${part.resource.uri}\n${part.resource.text}`;
      throw notShown(tool, `the resource ${part.resource.uri} of ${part.resource.mimeType ?? "bytes"}`);
    case "image":
    case "audio":
      throw notShown(tool, `${part.type} (${part.mimeType})`);
  }
}

function notShown(tool: string, what: string): ToolError {
  return new ToolError(`${tool} answered with ${what}, which cannot be shown here: only text can.`);
}
