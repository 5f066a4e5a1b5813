// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** Of one picture; a page of 1280 by 720 has about 0.1 MiB as PNG. */
export const MAX_IMAGE_BYTES = 4 * 1024 * 1024;
/** Beside one observation. */
export const MAX_IMAGES = 16;
/** Of all pictures of one episode, each counted once. */
export const MAX_EPISODE_IMAGE_BYTES = 32 * 1024 * 1024;

/** A picture beside a text: of an observation, or of a message. */
export interface ImagePart {
  readonly mediaType: ImageType;
  readonly data: Uint8Array;
  /** SHA-256 of the data in lower-case hex; of what the engine hands to an agent it is set. */
  readonly digest?: string | undefined;
}

/** With its digest. */
export type SeenImage = ImagePart & { readonly digest: string };

/** What is wrong with a picture, as words that follow its path; undefined: nothing. */
export function imageFault(image: unknown): string | undefined {
  if (typeof image !== "object" || image === null) return "must be an object: { mediaType, data }";
  const { mediaType, data, digest } = image as Partial<ImagePart>;
  if (!isImageType(mediaType)) return `.mediaType must be one of ${IMAGE_TYPES.join(", ")}`;
  if (!(data instanceof Uint8Array)) return ".data must be a Uint8Array";
  if (data.length > MAX_IMAGE_BYTES)
    return `.data has ${data.length} bytes, more than the ${MAX_IMAGE_BYTES} that a picture may have`;
  if (typeOf(data) !== mediaType) return `.data is no ${mediaType}`;
  if (digest !== undefined && digest !== "" && digest !== digestOf(data)) return ".digest is not that of its data";
  return undefined;
}

export function isImageType(mediaType: unknown): mediaType is ImageType {
  return IMAGE_TYPES.some((each) => each === mediaType);
}

/** @param image  without a fault */
export function withDigest(image: ImagePart): SeenImage {
  const { mediaType, data, digest } = image;
  return { mediaType, data, digest: digest === undefined || digest === "" ? digestOf(data) : digest };
}

/** As chat APIs take it. */
export function dataUrl({ mediaType, data }: ImagePart): string {
  return `data:${mediaType};base64,${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}`;
}

function digestOf(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

/** By the first bytes, since whoever names the type may be wrong. */
function typeOf(data: Uint8Array): ImageType | undefined {
  const head = Buffer.from(data.buffer, data.byteOffset, Math.min(data.byteLength, 12)).toString("latin1");
  if (head.startsWith("\u0089PNG\r\n\u001a\n")) return "image/png";
  if (head.startsWith("\u00ff\u00d8\u00ff")) return "image/jpeg";
  if (head.startsWith("GIF8")) return "image/gif";
  return head.startsWith("RIFF") && head.endsWith("WEBP") ? "image/webp" : undefined;
}
