// SPDX-License-Identifier: Apache-2.0
/** TFRecord: how event files hold their records. Source: TensorFlow, core/lib/io/record_writer.h. */

/** Length (8 bytes), its checksum (4), the record, its checksum (4); all little-endian. */
const HEADER = 12;
const FOOTER = 4;

export function frameOf(record: Uint8Array): Uint8Array {
  const frame = new Uint8Array(HEADER + record.length + FOOTER);
  const view = new DataView(frame.buffer);
  view.setBigUint64(0, BigInt(record.length), true);
  view.setUint32(8, maskedChecksum(frame.subarray(0, 8)), true);
  frame.set(record, HEADER);
  view.setUint32(HEADER + record.length, maskedChecksum(record), true);
  return frame;
}

/** The records of a file, up to the first one that is not whole: its writer was ended in the middle of it. */
export function* recordsOf(file: Uint8Array): Generator<Uint8Array> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  for (let at = 0; at + HEADER + FOOTER <= file.length;) {
    const length = Number(view.getBigUint64(at, true));
    const end = at + HEADER + length;
    if (maskedChecksum(file.subarray(at, at + 8)) !== view.getUint32(at + 8, true) || end + FOOTER > file.length)
      return;
    const record = file.subarray(at + HEADER, end);
    if (maskedChecksum(record) !== view.getUint32(end, true)) return;
    yield record;
    at = end + FOOTER;
  }
}

const MASK = 0xa282ead8;

/** CRC-32C, rotated and shifted, so that the checksum of data which holds checksums is a good one too. */
function maskedChecksum(data: Uint8Array): number {
  const crc = crc32c(data);
  return (((crc >>> 15) | (crc << 17)) + MASK) >>> 0;
}

function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] ?? 0);
  return ~crc;
}

/** Castagnoli's polynomial, bits reversed. */
const POLYNOMIAL = 0x82f63b78;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});
