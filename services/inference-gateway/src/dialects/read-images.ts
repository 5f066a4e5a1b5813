// SPDX-License-Identifier: Apache-2.0
// Readers of pictures for every dialect. Each throws ApiError 400 with the field's path.
import { createHash } from "node:crypto";
import { imageBytesFault, MAX_IMAGE_BYTES } from "@whetstone/core";
import { badField } from "../completion/api-error.ts";
import type { GivenImage } from "../completion/message-parts.ts";

const DATA_URL = /^data:([a-z]+\/[a-z0-9.+-]+);base64,/u;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/u;
/** Of MAX_IMAGE_BYTES in base64. */
const MAX_CHARS = Math.ceil(MAX_IMAGE_BYTES / 3) * 4;

/** A picture by its address, which must hold it: nothing is fetched. @param path  of the part */
export function imageOfUrl(url: unknown, path: string): GivenImage {
  const [head, mediaType] = (typeof url === "string" && DATA_URL.exec(url)) || [];
  if (typeof url !== "string" || head === undefined)
    throw badField(path, "a picture must come as data:image/…;base64,…: nothing is fetched");
  return imageOf(mediaType, url.slice(head.length), path);
}

/** @param path  of the part */
export function imageOf(mediaType: unknown, base64: unknown, path: string): GivenImage {
  if (typeof base64 !== "string" || base64 === "") throw badField(path, "the picture has no data");
  if (base64.length > MAX_CHARS) throw badField(path, `the picture has more than ${MAX_IMAGE_BYTES} bytes`);
  if (!BASE64.test(base64)) throw badField(path, "the picture's data is not base64");
  const bytes = Buffer.from(base64, "base64");
  const fault = imageBytesFault(mediaType, bytes);
  if (fault !== undefined)
    throw badField(path, `the picture's ${fault.at === "data" ? "data" : "type"} ${fault.reason}`);
  const digest = createHash("sha256").update(bytes).digest("hex");
  return { path, mediaType: mediaType as string, data: base64, digest };
}
