// SPDX-License-Identifier: Apache-2.0
// What was done, how long it took, and whether it went well: lines while it runs, then a table, JSON, and a sum for CI.
import { writeFileSync } from "node:fs";

export interface Row {
  readonly name: string;
  readonly seconds: number;
  readonly said: string;
  readonly outcome: "passed" | "failed" | "skipped";
}

export class Report {
  readonly rows: Row[] = [];
  readonly figures: Record<string, number> = {};
  readonly #startedAt = performance.now();

  /** Runs one phase and counts it. @returns whether it passed */
  async phase(name: string, work: () => Promise<string | void> | string | void): Promise<boolean> {
    const began = performance.now();
    try {
      const said = (await work()) ?? "";
      this.#add({ name, seconds: since(began), said, outcome: "passed" });
      return true;
    } catch (error) {
      this.#add({ name, seconds: since(began), said: (error as Error).message, outcome: "failed" });
      return false;
    }
  }

  /** As `phase`, where what follows makes no sense without it. */
  async must(name: string, work: () => Promise<string | void> | string | void): Promise<void> {
    if (!(await this.phase(name, work))) throw new Abandoned(name);
  }

  skip(name: string, reason: string): void {
    this.#add({ name, seconds: 0, said: `SKIPPED: ${reason}`, outcome: "skipped" });
  }

  count(outcome: Row["outcome"]): number {
    return this.rows.filter((row) => row.outcome === outcome).length;
  }

  /** A table for people, one JSON line, and the sum alone on the last line. `file`: the same JSON. */
  finish(file?: string): void {
    const seconds = Math.round(since(this.#startedAt));
    const report = { seconds, figures: this.figures, phases: this.rows };
    for (const line of table(this.rows)) console.log(line);
    console.log(JSON.stringify(report));
    if (file) writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
    if (this.count("skipped") > 0) console.log(`${this.count("skipped")} skipped, ${seconds} s`);
    console.log(`${this.count("passed")} passed, ${this.count("failed")} failed`);
  }

  #add(row: Row): void {
    this.rows.push(row);
    const mark = { passed: "✓", failed: "✗", skipped: "·" }[row.outcome];
    console.log(`${mark} ${row.seconds.toFixed(1).padStart(7)} s  ${row.name}${row.said && `: ${row.said}`}`);
  }
}

/** A phase failed that the others need. */
export class Abandoned extends Error {}

function since(began: number): number {
  return (performance.now() - began) / 1000;
}

function table(rows: readonly Row[]): string[] {
  const cells = rows.map(({ name, seconds, said, outcome }) => [
    name,
    outcome === "skipped" ? "–" : seconds.toFixed(1),
    outcome === "failed" ? `FAILED: ${said.split("\n")[0]}` : said,
  ]);
  return ["| phase | seconds | |", "| --- | --- | --- |", ...cells.map((row) => `| ${row.join(" | ")} |`)];
}
