// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { imageBytesFault, type ImageType } from "@whetstone/core";

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
  if (typeof image !== "object" || image === null) return " must be an object: { mediaType, data }";
  const { mediaType, data, digest } = image as Partial<ImagePart>;
  if (!(data instanceof Uint8Array)) return ".data must be a Uint8Array";
  const fault = imageBytesFault(mediaType, data);
  if (fault !== undefined) return `.${fault.at} ${fault.reason}`;
  return digest && digest !== digestOf(data) ? ".digest is not that of its data" : undefined;
}

/** @param image  without a fault */
export function withDigest({ mediaType, data, digest }: ImagePart): SeenImage {
  return { mediaType, data, digest: digest || digestOf(data) };
}

/** As chat APIs take it. */
export function dataUrl({ mediaType, data }: ImagePart): string {
  return `data:${mediaType};base64,${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")}`;
}

function digestOf(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
