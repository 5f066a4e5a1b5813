// SPDX-License-Identifier: Apache-2.0
import { ConfigError, WhetstoneError } from "@whetstone/core";
import type { SandboxFile } from "./sandbox.ts";

// Files cross the border of a sandbox as tar archives: one that we write is unpacked inside it, one that is written inside is
// read here. T1: an archive from inside is data; nothing of it is written to a disk of ours. T2: only regular files count.

const BLOCK = 512;
const MAX_PATH = 1024;
const REGULAR = new Set(["0", "\0"]);

/** @throws ConfigError naming `files[i].path` for a path that leads elsewhere. */
export function checkPaths(paths: readonly string[], name: string): void {
  const violations = paths.flatMap((path, i) =>
    isBelow(path)
      ? []
      : [{ path: `${name}[${i}]`, reason: `"${path.slice(0, 200)}" must be relative, without "." and ".."` }],
  );
  if (violations.length > 0) throw new ConfigError(violations);
}

function isBelow(path: string): boolean {
  const isShort = path !== "" && path.length <= MAX_PATH && !path.includes("\0");
  return isShort && path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/** GNU's format, because it has names of any length. */
export function writeTar(files: readonly SandboxFile[]): Buffer {
  checkPaths(
    files.map(({ path }) => path),
    "files",
  );
  const blocks = files.flatMap(({ path, content, executable = false }) => {
    const name = Buffer.from(path);
    const data = typeof content === "string" ? Buffer.from(content) : content;
    const long = name.length > 100 ? [header("././@LongLink", "L", name.length + 1, 0), padded(name, 1)] : [];
    return [...long, header(name.subarray(0, 100), "0", data.length, executable ? 0o755 : 0o644), padded(data)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

/** @throws WhetstoneError DATA_LOSS for what is no archive. */
export function readTar(archive: Buffer): SandboxFile[] {
  const files: SandboxFile[] = [];
  let longName: string | undefined;
  for (let at = 0; at + BLOCK <= archive.length;) {
    const head = archive.subarray(at, at + BLOCK);
    if (head.every((byte) => byte === 0)) break;
    const { name, type, size, mode } = parseHeader(head);
    const data = archive.subarray(at + BLOCK, at + BLOCK + size);
    if (data.length < size) throw broken("it ends within a file");
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    const path = (longName ?? name).replace(/^\.\//u, "");
    longName = type === "L" ? textOf(data) : undefined;
    if (REGULAR.has(type) && isBelow(path)) files.push({ path, content: data, executable: (mode & 0o100) !== 0 });
  }
  return files;
}

function header(name: string | Uint8Array, type: string, size: number, mode: number): Buffer {
  const head = Buffer.alloc(BLOCK);
  head.set(typeof name === "string" ? Buffer.from(name) : name);
  head.write(`${octal(mode, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(0, 11)}\0`, 100);
  head.write(`        ${type}`, 148);
  head.write("ustar  \0", 257);
  const sum = head.reduce((total, byte) => total + byte, 0);
  head.write(`${octal(sum, 6)}\0 `, 148);
  return head;
}

function parseHeader(head: Buffer) {
  const number = (from: number, to: number): number =>
    Number.parseInt(textOf(head.subarray(from, to)).trim() || "0", 8);
  const [mode, size, sum] = [number(100, 108), number(124, 136), number(148, 156)];
  const counted = head.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0);
  if (sum !== counted || !Number.isSafeInteger(size) || size < 0) throw broken("a header is damaged");
  const prefix = head.subarray(257, 263).toString() === "ustar\0" ? textOf(head.subarray(345, 500)) : "";
  const name = textOf(head.subarray(0, 100));
  return { name: prefix === "" ? name : `${prefix}/${name}`, type: String.fromCharCode(head[156] ?? 0), size, mode };
}

function padded(data: Uint8Array, more = 0): Buffer {
  const block = Buffer.alloc(Math.ceil((data.length + more) / BLOCK) * BLOCK);
  block.set(data);
  return block;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, "0");
}

function textOf(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.subarray(0, end === -1 ? bytes.length : end).toString("utf8");
}

function broken(why: string): WhetstoneError {
  return new WhetstoneError("DATA_LOSS", `the files that came out of the sandbox are no archive: ${why}`);
}
