// SPDX-License-Identifier: Apache-2.0
import { type JSONRPCMessage, parseJSONRPCMessage } from "@modelcontextprotocol/client";

/** Bytes of a stream, as messages: one a line. */
export class MessageReader {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @throws Error that says what is wrong with a line: too long, or no message */
  *read(data: Uint8Array): Generator<JSONRPCMessage> {
    for (let from = 0; from < data.length;) {
      const end = data.indexOf(NEWLINE, from);
      this.#take(data.subarray(from, end === -1 ? data.length : end));
      if (end === -1) return;
      from = end + 1;
      const line = Buffer.concat(this.#parts).toString("utf8").trim();
      this.#parts = [];
      this.#bytes = 0;
      if (line !== "") yield parse(line);
    }
  }

  #take(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#maxBytes) throw new Error(`it sent a message of more than ${this.#maxBytes} bytes`);
    this.#parts.push(part);
  }
}

const NEWLINE = 10;
const SHOWN_CHARACTERS = 80;

function parse(line: string): JSONRPCMessage {
  try {
    return parseJSONRPCMessage(JSON.parse(line));
  } catch (cause) {
    const shown = JSON.stringify(line.slice(0, SHOWN_CHARACTERS));
    throw new Error(`it wrote a line to its standard output that is no message of MCP: ${shown}`, { cause });
  }
}
