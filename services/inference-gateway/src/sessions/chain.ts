// SPDX-License-Identifier: Apache-2.0
// What the calls of one conversation share, so that a turn costs what is new in it: the text of its prompts, and its ids as the
// engine gets them. V8 would keep a text for every call, and writing all ids as JSON takes longer than all else of a late turn.

/** One text of which each prompt of a conversation is a beginning. */
interface SharedText {
  text: string;
}

/** Ids as JSON without brackets. Each call has a beginning of it; whoever goes on from the last one adds to it. */
interface SharedJson {
  bytes: Buffer;
  used: number;
}

interface Asked {
  readonly promptText: string;
  /** After those of the link before it. */
  readonly promptIds: readonly number[];
  readonly completionIds: readonly number[];
}

/** A call's place in its conversation: its prompt, and all ids through its answer. */
export class ChainLink {
  /** How many ids there are, from the conversation's first one through the call's answer. */
  readonly length: number;
  readonly #before: ChainLink | undefined;
  readonly #ids: readonly (readonly number[])[];
  readonly #text: SharedText;
  readonly #chars: number;
  #json: SharedJson | undefined;
  #bytes = 0;

  /** @param before  whose ids it goes on from */
  constructor(before: ChainLink | undefined, { promptText, promptIds, completionIds }: Asked) {
    this.#before = before;
    this.#ids = [promptIds, completionIds];
    this.length = (before?.length ?? 0) + promptIds.length + completionIds.length;
    this.#chars = promptText.length;
    this.#text = (before === undefined ? undefined : before.#goOn(promptText)) ?? { text: promptText };
  }

  /** The rendered prompt, generation prompt included. */
  get promptText(): string {
    return this.#text.text.slice(0, this.#chars);
  }

  /** Prompts that go on from it, or end with it, begin so. */
  ids(): number[] {
    const links: ChainLink[] = [this];
    for (let link = this.#before; link !== undefined; link = link.#before) links.push(link);
    return links.toReversed().flatMap((link) => link.#ids.flat());
  }

  /** The same as JSON, without brackets. Written when first asked for: most calls that stand alone are never gone on from. */
  json(): Uint8Array {
    const { bytes } = this.#written();
    return bytes.subarray(0, this.#bytes);
  }

  /** Makes its conversation's text the longer one; undefined: it is none, or another call has gone on from here already. */
  #goOn(promptText: string): SharedText | undefined {
    const shared = this.#text;
    if (shared.text.length > this.#chars || promptText.length < this.#chars) return undefined;
    shared.text = promptText;
    return shared;
  }

  #written(): SharedJson {
    this.#json ??= this.#write();
    return this.#json;
  }

  #write(): SharedJson {
    const json = this.#before === undefined ? { bytes: Buffer.alloc(0), used: 0 } : this.#before.#openJson();
    const own = this.#ids.filter((ids) => ids.length > 0).map((ids) => ids.join(","));
    append(json, Buffer.from((json.used > 0 ? ["", ...own] : own).join(","), "latin1"));
    this.#bytes = json.used;
    return json;
  }

  /** What can be added to: its conversation's, or a copy where another call has gone on from it already. */
  #openJson(): SharedJson {
    const json = this.#written();
    if (json.used === this.#bytes) return json;
    return { bytes: Buffer.from(json.bytes.subarray(0, this.#bytes)), used: this.#bytes };
  }
}

/** A conversation of many turns is copied a few times, not at each of them. */
const GROWTH = 1.5;

function append(json: SharedJson, added: Uint8Array): void {
  const used = json.used + added.length;
  if (used > json.bytes.length) {
    const grown = Buffer.allocUnsafeSlow(Math.ceil(used * GROWTH));
    json.bytes.copy(grown, 0, 0, json.used);
    json.bytes = grown;
  }
  json.bytes.set(added, json.used);
  json.used = used;
}
