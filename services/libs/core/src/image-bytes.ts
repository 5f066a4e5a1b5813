// SPDX-License-Identifier: Apache-2.0
/** The pictures that are taken, wherever they come in. */
export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** Of one picture; a page of 1280 by 720 has about 0.1 MiB as PNG. */
export const MAX_IMAGE_BYTES = 4 * 1024 * 1024;

export function isImageType(mediaType: unknown): mediaType is ImageType {
  return IMAGE_TYPES.some((each) => each === mediaType);
}

/** What is wrong with a picture, and whether its type or its data is; undefined: nothing. */
export function imageBytesFault(
  mediaType: unknown,
  data: Uint8Array,
): { readonly at: "mediaType" | "data"; readonly reason: string } | undefined {
  if (!isImageType(mediaType)) return { at: "mediaType", reason: `must be one of ${IMAGE_TYPES.join(", ")}` };
  if (data.length > MAX_IMAGE_BYTES) {
    const reason = `has ${data.length} bytes, more than the ${MAX_IMAGE_BYTES} that a picture may have`;
    return { at: "data", reason };
  }
  return typeOf(data) === mediaType ? undefined : { at: "data", reason: `is no ${mediaType}` };
}

/** By the first bytes, since whoever names the type may be wrong. */
function typeOf(data: Uint8Array): ImageType | undefined {
  const head = Buffer.from(data.buffer, data.byteOffset, Math.min(data.byteLength, 12)).toString("latin1");
  if (head.startsWith("\u0089PNG\r\n\u001a\n")) return "image/png";
  if (head.startsWith("\u00ff\u00d8\u00ff")) return "image/jpeg";
  if (head.startsWith("GIF8")) return "image/gif";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}
