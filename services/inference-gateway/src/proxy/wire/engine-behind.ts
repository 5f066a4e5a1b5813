// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";

/** A call that may pass to the engine. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The request itself where nobody has read it. */
  readonly body: IncomingMessage | string;
}

/** What the engine says to a GET. */
export interface Told {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** The engine that the proxy stands before. What it answers is IEP/1, whatever the engine itself speaks. */
export interface EngineBehind {
  isPaused(): Promise<boolean>;
  /** The folder of the model that it was started with; "": it does not say. */
  modelFolder(): Promise<string>;
  /** Its answer to a GET that the proxy adds something to. */
  tell(url: string): Promise<Told>;
  /** Answers a call. A caller that leaves ends the engine's request (I9). @returns the status */
  answer(call: Call): Promise<number>;
}
