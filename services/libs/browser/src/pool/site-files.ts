// SPDX-License-Identifier: Apache-2.0
import { readFile } from "node:fs/promises";
import { extname, join, resolve, sep } from "node:path";
import type { Site, SiteAnswer, SiteRequest } from "./site.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".gif": "image/gif",
  ".jpg": "image/jpeg",
  ".ico": "image/x-icon",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
};
/** Of what is kept in memory; what is beyond it is read each time. */
const MAX_KEPT_BYTES = 64 * 2 ** 20;

const NOT_FOUND: SiteAnswer = {
  status: 404,
  headers: { "content-type": "text/plain" },
  body: Buffer.from("not found"),
};

/** A folder of this machine as a site: all episodes see the same files, and nothing beside them. */
export class SiteFiles implements Site {
  /** "http://miniwob.test". */
  readonly origin: string;
  readonly #folder: string;
  readonly #kept = new Map<string, SiteAnswer>();
  #keptBytes = 0;

  constructor(origin: string, folder: string) {
    this.origin = origin;
    this.#folder = resolve(folder);
  }

  async answer({ path: asked }: SiteRequest): Promise<SiteAnswer> {
    const path = this.#pathOf(asked.split("?", 1)[0] ?? "");
    if (path === undefined) return NOT_FOUND;
    const known = this.#kept.get(path);
    if (known !== undefined) return known;
    const body = await readFile(path).catch(() => undefined);
    if (body === undefined) return NOT_FOUND;
    const headers = { "content-type": TYPES[extname(path)] ?? "application/octet-stream" };
    const file: SiteAnswer = { status: 200, headers, body };
    if (this.#keptBytes + body.length <= MAX_KEPT_BYTES) {
      this.#kept.set(path, file);
      this.#keptBytes += body.length;
    }
    return file;
  }

  #pathOf(pathname: string): string | undefined {
    let name: string;
    try {
      name = decodeURIComponent(pathname);
    } catch {
      return undefined;
    }
    const path = join(this.#folder, name);
    return path.startsWith(this.#folder + sep) && !name.includes("\0") ? path : undefined;
  }
}
