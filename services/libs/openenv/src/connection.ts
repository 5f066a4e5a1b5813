// SPDX-License-Identifier: Apache-2.0
import type { Deadline } from "@whetstone/core";
import { onAbort } from "@whetstone/core";
import { WebSocket } from "ws";
import { z } from "zod";
import { type ClientMessage, ServerMessage } from "./wire.ts";

export interface ConnectionOptions {
  /** Of the server: "http://127.0.0.1:8000". */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of one message of the server's. */
  readonly maxMessageBytes: number;
}

/** How long the end of a connection may take before it is cut. */
const END_MS = 2_000;
const MOST_SHOWN = 200;

/** One question, one answer, in turns. What breaks that is an Error that says what the server did. */
export class OpenEnvConnection implements AsyncDisposable {
  readonly #socket: WebSocket;
  #answer: PromiseWithResolvers<ServerMessage> | undefined;
  /** Said before anything was asked: a server that has no room says so at once. */
  #early: ServerMessage | undefined;
  #broken: Error | undefined;

  private constructor({ url, headers, maxMessageBytes }: ConnectionOptions) {
    const address = `${url.replace(/^http/u, "ws").replace(/\/+$/u, "")}/ws`;
    this.#socket = new WebSocket(address, {
      headers,
      maxPayload: maxMessageBytes,
      followRedirects: false, // The headers may hold a key.
      perMessageDeflate: false,
    });
    this.#socket.on("message", (data: Buffer) => this.#take(data.toString("utf8")));
    this.#socket.on("error", (error) => this.#break(error));
    this.#socket.on("close", (code) => this.#break(new Error(`it closed the connection (code ${code})`)));
  }

  /** @throws Error that says why there is no connection */
  static async open(options: ConnectionOptions, deadline: Deadline): Promise<OpenEnvConnection> {
    const connection = new OpenEnvConnection(options);
    const opened = Promise.withResolvers<void>();
    connection.#socket.once("open", opened.resolve);
    connection.#socket.once("close", () => opened.reject(connection.#broken ?? new Error("it closed the connection")));
    const leave = onAbort(deadline.signal, () => connection.#socket.terminate());
    try {
      await opened.promise;
      return connection;
    } catch (error) {
      deadline.throwIfExpired();
      throw error;
    } finally {
      leave();
    }
  }

  /** @throws Error that says what is wrong with the answer, or that there is none */
  async ask(message: ClientMessage, deadline: Deadline): Promise<ServerMessage> {
    if (this.#early !== undefined) return this.#early;
    if (this.#broken !== undefined) throw this.#broken;
    this.#answer = Promise.withResolvers();
    const leave = onAbort(deadline.signal, () => this.#break(new Error("no answer in time")));
    try {
      this.#socket.send(JSON.stringify(message));
      return await this.#answer.promise;
    } catch (error) {
      deadline.throwIfExpired();
      throw error;
    } finally {
      leave();
      this.#answer = undefined;
    }
  }

  cut(): void {
    this.#socket.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#socket.readyState === WebSocket.CLOSED) return;
    const closed = new Promise((resolve) => this.#socket.once("close", resolve));
    const late = setTimeout(() => this.#socket.terminate(), END_MS);
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ type: "close" }));
    this.#socket.close();
    await closed;
    clearTimeout(late);
  }

  #take(text: string): void {
    const read = readMessage(text);
    if (read instanceof Error) return this.#break(read);
    const asked = this.#answer;
    this.#answer = undefined; // Whatever comes after it answers nothing, even if it came in the same packet.
    if (asked !== undefined) asked.resolve(read);
    else if (read.type === "error" && this.#early === undefined) this.#early = read;
    else this.#break(new Error("it sent a message that answers nothing"));
  }

  #break(error: Error): void {
    this.#broken ??= error;
    this.#answer?.reject(this.#broken);
    if (this.#socket.readyState !== WebSocket.CLOSED) this.#socket.terminate();
  }
}

function readMessage(text: string): ServerMessage | Error {
  try {
    return ServerMessage.parse(JSON.parse(text));
  } catch (error) {
    const issue = error instanceof z.ZodError ? error.issues[0] : undefined;
    const reason =
      issue === undefined ? "is not JSON" : `is none of the protocol: ${issue.path.join(".")}: ${issue.message}`;
    return new Error(`its message ${reason}: ${text.slice(0, MOST_SHOWN)}`);
  }
}
