// SPDX-License-Identifier: Apache-2.0
import { boundedText, Deadline, WhetstoneError } from "@whetstone/core";
import { EpisodeError, type FailureClass } from "@whetstone/sdk";

export interface SessionOptions {
  /** Of the server: "http://127.0.0.1:9000". */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of one request, in milliseconds. */
  readonly callTimeoutMs: number;
  /** Of one answer; a longer one is the server's failure. */
  readonly maxMessageBytes: number;
}

export interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly text: string;
}

const MAX_MESSAGE = 600;

/** An episode at a resource server, which knows it by its cookies alone. */
export class NemoGymSession {
  readonly #options: SessionOptions;
  readonly #cookies = new Map<string, string>();

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** @param failureClass  of a server that does not answer, or says that it failed */
  async post(path: string, body: unknown, failureClass: FailureClass, signal?: AbortSignal): Promise<Answer> {
    const { url, headers, callTimeoutMs, maxMessageBytes } = this.#options;
    using deadline = Deadline.after(callTimeoutMs, signal);
    try {
      const response = await fetch(`${url.replace(/\/+$/u, "")}/${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers, ...this.#cookie },
        body: JSON.stringify(body),
        signal: deadline.signal,
        redirect: "error", // The headers may hold a key.
      });
      for (const cookie of response.headers.getSetCookie()) this.#keep(cookie);
      const text = await boundedText(response, maxMessageBytes);
      if (response.status >= 500) throw new Error(`it answered ${response.status}: ${text.slice(0, 200)}`);
      return { ok: response.ok, status: response.status, text };
    } catch (error) {
      if (signal?.aborted === true) throw error; // Nobody waits any more: that is not the server's fault.
      throw this.failed(path, reasonOf(error), failureClass, error);
    }
  }

  failed(path: string, reason: string, failureClass: FailureClass = "ENVIRONMENT", cause?: unknown): EpisodeError {
    const message = `NeMo Gym server ${this.#options.url}, /${path}: ${reason}`;
    return new EpisodeError(failureClass, message.slice(0, MAX_MESSAGE), { cause });
  }

  get #cookie(): Record<string, string> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    return cookie === "" ? {} : { cookie };
  }

  #keep(cookie: string): void {
    const { name, value } = /^\s*(?<name>[^=;]+)=(?<value>[^;]*)/u.exec(cookie)?.groups ?? {};
    if (name !== undefined) this.#cookies.set(name, value ?? "");
  }
}

function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return WhetstoneError.from(cause ?? error).message;
}
