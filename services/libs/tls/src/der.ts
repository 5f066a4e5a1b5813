// SPDX-License-Identifier: Apache-2.0
/** The few DER forms that a certificate needs (X.690). Every function returns a complete value: tag, length, content. */

function tagged(tag: number, content: Uint8Array): Buffer {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const digits = length < 0x100 ? [length] : [length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, 0x80 | digits.length, ...digits]), content]);
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => tagged(0x30, Buffer.concat(parts));
export const set = (part: Uint8Array): Buffer => tagged(0x31, part);
export const octets = (content: Uint8Array): Buffer => tagged(0x04, content);
export const text = (value: string): Buffer => tagged(0x0c, Buffer.from(value));
export const yes: Buffer = tagged(0x01, Buffer.from([0xff]));
/** `[number] IMPLICIT`, primitive. */
export const implicit = (number: number, content: Uint8Array): Buffer => tagged(0x80 | number, content);
/** `[number] EXPLICIT`. */
export const explicit = (number: number, content: Uint8Array): Buffer => tagged(0xa0 | number, content);
/** `unused` of the last bits are padding. */
export const bits = (content: Uint8Array, unused = 0): Buffer =>
  tagged(0x03, Buffer.concat([Buffer.from([unused]), content]));

/** A positive number, big-endian. */
export function integer(bytes: Uint8Array): Buffer {
  return tagged(0x02, (bytes[0] ?? 0) & 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);
}

/** `2.5.29.19` and the like. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(value: number): number[] {
  const digits = [value & 0x7f];
  for (let left = value >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
  return digits;
}

/** Seconds are all it knows. Two-digit years until 2049 are the standard's own rule. */
export function time(at: Date): Buffer {
  const digits = at.toISOString().replace(/[-:T]|\.\d+/g, "");
  return at.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}
