// SPDX-License-Identifier: Apache-2.0
/** Numbers, times and tables as people read them. */
import { stripVTControlCharacters } from "node:util";

/** 1536 → "1.5 KiB". */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 100 || power === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[power]}`;
}

/** A picture where only text can stand: "[image sha256:3f2a91c04d5e… 12.0 KiB]". @param digest  "": not known */
export function formatImage({ digest, data }: { readonly digest: string; readonly data: Uint8Array }): string {
  const name = digest === "" ? "" : ` sha256:${digest.slice(0, 12)}…`;
  return `[image${name} ${formatBytes(data.length)}]`;
}

/** Seconds → "0.8s", "42s", "3m05s", "2h07m". */
export function formatSeconds(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h${pad(Math.floor((whole % 3600) / 60))}m`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** A measured value with three significant digits, small ones as powers of ten: 0.41, 1.2e-5. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1);
  return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** 12345 → "12,345". */
export function formatCount(value: number | bigint): string {
  return value.toLocaleString("en-US");
}

/** Columns aligned by their widest cell, two spaces apart; numbers to the right. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => width(row[column] ?? ""))));
  const right = header.map((_, column) => rows.length > 0 && rows.every((row) => isNumeric(row[column] ?? "")));
  return all.map((row) =>
    row
      .map((cell, column) => align(cell, widths[column] ?? 0, right[column] === true))
      .join("  ")
      .trimEnd(),
  );
}

function align(cell: string, to: number, right: boolean): string {
  const space = " ".repeat(Math.max(0, to - width(cell)));
  return right ? space + cell : cell + space;
}

function width(cell: string): number {
  return stripVTControlCharacters(cell).length;
}

function isNumeric(cell: string): boolean {
  return /^(|–|-?[\d.,]+(e-?\d+)?\s?(%|s|[KMGT]?i?B)?)$/.test(stripVTControlCharacters(cell));
}

/** ▕███▌     ▏ with eighths of a cell. `share` in [0, 1]. */
export function formatBar(share: number, cells: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * cells * 8);
  const full = Math.floor(eighths / 8);
  const part = [..." ▏▎▍▌▋▊▉"][eighths % 8] ?? "";
  return ("█".repeat(full) + (full < cells ? part : "")).padEnd(cells);
}
