// SPDX-License-Identifier: Apache-2.0
/** Numbers of one series that are kept together. */
const BLOCK = 256;
const DIGITS = 9;

/** Which row of a table an episode's id has. */
export interface Place {
  /** Ids that differ in the index of their group only, "j/g/s3" for "j/g12/s3"; an index into `series`. */
  readonly series: number;
  /** That index; -1: the group's name does not end in one. */
  readonly index: number;
}

interface Series {
  readonly head: string;
  readonly tail: string;
  readonly blocks: Map<number, Uint32Array>;
}

/**
 * Finds rows by episode id in four bytes a row: the ids themselves, of which there may be millions, are not kept. What an id
 * says of its group's index is a number, and the rest is the same for thousands of ids.
 */
export class PlaceTable {
  readonly #numbers = new Map<string, number>();
  readonly #series: Series[] = [];

  /** Undefined: nothing was set there. */
  get(episodeId: string): number | undefined {
    const { head, tail, index } = split(episodeId);
    const series = this.#series[this.#numbers.get(head + tail) ?? -1];
    const row = series?.blocks.get(Math.floor(index / BLOCK))?.[offsetOf(index)] ?? 0;
    return row === 0 ? undefined : row - 1;
  }

  set(episodeId: string, row: number): Place {
    const { head, tail, index } = split(episodeId);
    const number = this.#numberOf(head, tail);
    const { blocks } = this.#series[number] as Series;
    const key = Math.floor(index / BLOCK);
    const block = blocks.get(key) ?? new Uint32Array(BLOCK);
    blocks.set(key, block);
    block[offsetOf(index)] = row + 1;
    return { series: number, index };
  }

  idOf({ series, index }: Place): string {
    const { head, tail } = this.#series[series] as Series;
    return index < 0 ? head + tail : `${head}${index}${tail}`;
  }

  #numberOf(head: string, tail: string): number {
    const known = this.#numbers.get(head + tail);
    if (known !== undefined) return known;
    this.#numbers.set(head + tail, this.#series.length);
    return this.#series.push({ head, tail, blocks: new Map() }) - 1;
  }
}

function offsetOf(index: number): number {
  return index < 0 ? BLOCK - 1 : index % BLOCK;
}

/** "j/v0-eval-12/s3" is "j/v0-eval-", 12, "/s3". Put together again they are the id, so no two ids share a place. */
function split(id: string): { head: string; tail: string; index: number } {
  const slash = id.lastIndexOf("/");
  const end = slash < 0 ? id.length : slash;
  let start = end;
  while (end - start < DIGITS && isDigit(id.charCodeAt(start - 1))) start--;
  while (start < end - 1 && id[start] === "0") start++;
  const index = start === end ? -1 : Number(id.slice(start, end));
  return { head: id.slice(0, start), tail: id.slice(end), index };
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
