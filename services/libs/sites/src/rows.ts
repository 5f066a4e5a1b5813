// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync, SQLInputValue } from "node:sqlite";

/** Rows of a query, as what asks for them knows them. */
export function rows<T>(db: DatabaseSync, sql: string, ...values: SQLInputValue[]): T[] {
  return db.prepare(sql).all(...values) as T[];
}

/** Undefined: there is none. */
export function row<T>(db: DatabaseSync, sql: string, ...values: SQLInputValue[]): T | undefined {
  return db.prepare(sql).get(...values) as T | undefined;
}

export function write(db: DatabaseSync, sql: string, ...values: SQLInputValue[]): void {
  db.prepare(sql).run(...values);
}

/** A form's whole number within a range; undefined: it is none. */
export function wholeNumber(text: string | undefined, least: number, most: number): number | undefined {
  const value = Number(text);
  return Number.isInteger(value) && value >= least && value <= most ? value : undefined;
}
