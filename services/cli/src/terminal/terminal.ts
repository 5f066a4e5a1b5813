// SPDX-License-Identifier: Apache-2.0
/** Where output goes: colours and redrawing only on a terminal, JSON for programs. */
import { createInterface } from "node:readline/promises";
import { stripVTControlCharacters } from "node:util";

export type Colour = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const satisfies Record<Colour, number>;

/** Colours a text, or leaves it as it is. */
export type Paint = (colour: Colour, text: string) => string;

export interface Terminal {
  /** Output can be redrawn. */
  readonly isTty: boolean;
  readonly paint: Paint;
  columns(): number;
  rows(): number;
  /** A line on stdout. */
  line(text?: string): void;
  /** A line on stderr. */
  error(text: string): void;
  /** One JSON document on stdout. */
  json(value: unknown): void;
  /** Asks a person, who has to type "y". Without a terminal nobody is asked: false. */
  confirm(question: string, signal: AbortSignal): Promise<boolean>;
  /** A part of the screen that is drawn again and again. */
  live(): LiveRegion;
}

export interface LiveRegion {
  /** Replaces what this region showed before. Without a terminal: nothing. */
  draw(lines: readonly string[]): void;
  /** A line above the region, which stays. */
  above(text: string): void;
  /** Leaves the last drawing where it is. */
  done(): void;
}

export function createTerminal(stdout = process.stdout, stderr = process.stderr, environment = process.env): Terminal {
  const isTty = stdout.isTTY === true && environment["TERM"] !== "dumb";
  const coloured = isTty && !environment["NO_COLOR"];
  const columns = (): number => stdout.columns || 80;
  const rows = (): number => stdout.rows || 24;
  return {
    isTty,
    paint: (colour, text) => (coloured ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text),
    columns,
    rows,
    line: (text = "") => void stdout.write(`${text}\n`),
    error: (text) => void stderr.write(`${text}\n`),
    json: (value) => void stdout.write(`${JSON.stringify(value, plainNumbers)}\n`),
    confirm: (question, signal) => confirm(question, isTty, signal),
    live: () => liveRegion(stdout, isTty, columns, rows),
  };
}

async function confirm(question: string, isTty: boolean, signal: AbortSignal): Promise<boolean> {
  if (!isTty || !process.stdin.isTTY) return false;
  using reader = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await reader.question(`${question} [y/N] `, { signal });
  return /^y(es)?$/i.test(answer.trim());
}

function liveRegion(stdout: NodeJS.WriteStream, isTty: boolean, columns: () => number, rows: () => number): LiveRegion {
  let shown: string[] = [];
  const erase = (): string => (shown.length > 0 ? `\u001b[${shown.length}A\r\u001b[J` : "");
  const paintRegion = (): string => shown.map((line) => `${line}\n`).join("");
  return {
    draw: (lines) => {
      if (!isTty) return;
      const before = erase();
      // A line that wraps or a region taller than the screen could not be erased again.
      shown = lines.slice(0, rows() - 1).map((line) => fit(line, columns()));
      stdout.write(before + paintRegion());
    },
    above: (text) => void stdout.write(isTty ? `${erase()}${text}\n${paintRegion()}` : `${text}\n`),
    done: () => void (shown = []),
  };
}

/** Cuts a line to the screen's width; colours are dropped only where it must be cut. */
export function fit(line: string, columns: number): string {
  const plain = stripVTControlCharacters(line);
  return plain.length < columns ? line : plain.slice(0, Math.max(0, columns - 2)) + "…";
}

/** 64-bit integers as JSON numbers: the books count below 2^53. */
function plainNumbers(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value;
}
