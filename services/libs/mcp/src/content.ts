// SPDX-License-Identifier: Apache-2.0
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/client";
import { isImageType, MAX_IMAGE_BYTES } from "@whetstone/core";
import type { ImagePart } from "@whetstone/sdk";
import { ToolError } from "@whetstone/tools";

/** What a result is to the model. */
export interface ShownResult {
  /** Its texts, and what it holds as data where no text says it. A picture has its place in them. */
  readonly text: string;
  readonly images: readonly ImagePart[];
}

/** @throws ToolError naming a part that can be shown neither as text nor as a picture */
export function shownOf(tool: string, { content, structuredContent }: CallToolResult): ShownResult {
  const images: ImagePart[] = [];
  const texts = content.map((part) => partText(tool, part, images)).filter((text) => text !== "");
  if (texts.length === 0 && structuredContent !== undefined) return { text: JSON.stringify(structuredContent), images };
  return { text: texts.join("\n"), images };
}

function partText(tool: string, part: ContentBlock, images: ImagePart[]): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "resource_link":
      return `${part.name}: ${part.uri}`;
    case "resource":
      if ("text" in part.resource) return `${part.resource.uri}\n${part.resource.text}`;
      throw notShown(tool, `the resource ${part.resource.uri} of ${part.resource.mimeType ?? "bytes"}`);
    case "image":
      if (!isImageType(part.mimeType)) throw notShown(tool, `image (${part.mimeType})`);
      images.push({ mediaType: part.mimeType, data: bytesOf(tool, part.data) });
      return `[image ${images.length}]`;
    case "audio":
      throw notShown(tool, `audio (${part.mimeType})`);
  }
}

function bytesOf(tool: string, base64: string): Uint8Array {
  const data = Buffer.from(base64, "base64");
  if (data.length > MAX_IMAGE_BYTES) throw notShown(tool, `image of more than ${MAX_IMAGE_BYTES} bytes`);
  return data;
}

function notShown(tool: string, what: string): ToolError {
  return new ToolError(
    `${tool} answered with ${what}, which cannot be shown here: only text and pictures (PNG, JPEG, WebP, GIF) can.`,
  );
}
