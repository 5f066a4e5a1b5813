// SPDX-License-Identifier: Apache-2.0
/** A picture, and where it stood in the request. */
export interface GivenImage {
  readonly path: string;
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
  /** SHA-256 of the bytes. */
  readonly digest: string;
}

/** What a message consists of, in order, where that is not text alone. */
export type MessagePart = string | GivenImage;

/** Where a message keeps its parts: no field that a client sends has this name, and no template prints it. */
export const PARTS: unique symbol = Symbol("parts");
