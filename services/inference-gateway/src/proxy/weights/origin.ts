// SPDX-License-Identifier: Apache-2.0
import { connectorTo, type TlsIdentity } from "@whetstone/tls";
import { Pool } from "undici";
import { broken } from "./manifest.ts";

/** Bytes of a file, and how many it has. */
export interface Answer {
  readonly body: AsyncIterable<Uint8Array>;
  readonly total: number;
}

/** Where the files of one version are. */
export interface Origin extends AsyncDisposable {
  /** As people read it. */
  readonly url: string;
  /**
   * The bytes from `begin` up to `end`.
   * @throws WhetstoneError for an answer that says no; any other error may be over soon
   */
  open(file: string, begin: number, end: number, signal: AbortSignal): Promise<Answer>;
}

/** Statuses that may be over soon. */
const BUSY: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);
/** Without a byte for so long a connection counts as broken. */
export const QUIET_MS = 30_000;

/** Files that the trainer serves below a URL. */
export class TrainerOrigin implements Origin {
  readonly url: string;
  readonly #path: string;
  readonly #pool: Pool;

  /** @throws WhetstoneError INVALID_ARGUMENT for a URL that cannot be asked */
  constructor(url: string, tls: TlsIdentity | undefined) {
    if (!URL.canParse(url) || !/^https?:/.test(url)) throw broken(`stream.url: ${url} is not an http or https URL`);
    const { origin, pathname, protocol } = new URL(url);
    if (protocol === "https:" && !tls)
      throw broken(`stream.url: ${url} needs certificates, and this engine has none (WHETSTONE_TLS_PATH)`);
    this.url = url;
    this.#path = pathname.replace(/\/$/, "");
    const secured = protocol === "https:" && tls ? { connect: connectorTo(tls.to("trainer")) } : {};
    this.#pool = new Pool(origin, { connections: 1, headersTimeout: QUIET_MS, bodyTimeout: QUIET_MS, ...secured });
  }

  async open(file: string, begin: number, end: number, signal: AbortSignal): Promise<Answer> {
    const path = `${this.#path}/${file.split("/").map(encodeURIComponent).join("/")}`;
    const headers = { range: `bytes=${begin}-${end - 1}` };
    const { statusCode, headers: answered, body } = await this.#pool.request({ path, method: "GET", headers, signal });
    if (BUSY.has(statusCode)) {
      await body.dump();
      throw new Error(`status ${statusCode}`);
    }
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(String(answered["content-range"]));
    if (statusCode === 206 && Number(range?.[1]) === begin) return { body, total: Number(range?.[2]) };
    const said = (await body.text()).slice(0, 600);
    throw broken(`${file}: ${this.url} answered ${statusCode}: ${statusCode === 206 ? "another range" : said}`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#pool.destroy();
  }
}
