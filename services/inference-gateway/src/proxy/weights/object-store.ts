// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import type { Readable } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";
import { broken } from "./manifest.ts";
import { type Answer, type Origin, QUIET_MS } from "./origin.ts";

/** Statuses that do not change by asking again. */
const NO: ReadonlySet<number> = new Set([400, 401, 403, 404, 416]);

export interface StoreOptions {
  /** "s3://bucket" or "s3://bucket/prefix". */
  readonly url: string;
  /** Of its URLs; absent: path where there is an endpoint of one's own. */
  readonly style: "path" | "virtual" | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** A version in an object store that speaks S3. Endpoint, region and credentials are found as every S3 client finds them. */
export class StoreOrigin implements Origin {
  readonly url: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  private constructor(url: string, client: S3Client) {
    const { host, pathname } = new URL(url);
    this.url = url;
    this.#client = client;
    this.#bucket = host;
    this.#prefix = pathname.replace(/^\/|\/$/g, "");
  }

  /** @throws WhetstoneError INVALID_ARGUMENT for a version that is not in this store */
  static async at(url: string, { url: store, style, env }: StoreOptions): Promise<StoreOrigin> {
    if (!url.startsWith(`${store}/`))
      throw broken(`stream.url: ${url} is not in the object store of this engine, ${store}`);
    // Half of the SDK is read by who needs it only.
    const [{ S3Client }, { NodeHttpHandler }] = await Promise.all([
      import("@aws-sdk/client-s3"),
      import("@smithy/node-http-handler"),
    ]);
    const isOwn = Boolean(env["AWS_ENDPOINT_URL_S3"] ?? env["AWS_ENDPOINT_URL"]);
    const authorities = env["AWS_CA_BUNDLE"];
    const agent = authorities ? { httpsAgent: new Agent({ ca: readFileSync(authorities), keepAlive: true }) } : {};
    const client = new S3Client({
      region: env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1",
      forcePathStyle: style ? style === "path" : isOwn,
      // Every file is checked against its digest anyway, and a part of one has no checksum of its own.
      responseChecksumValidation: "WHEN_REQUIRED",
      requestHandler: new NodeHttpHandler({ connectionTimeout: 5_000, socketTimeout: QUIET_MS, ...agent }),
    });
    return new StoreOrigin(url, client);
  }

  async open(file: string, begin: number, end: number, signal: AbortSignal): Promise<Answer> {
    const { GetObjectCommand } = await import("@aws-sdk/client-s3");
    const place = { Bucket: this.#bucket, Key: `${this.#prefix}/${file}`, Range: `bytes=${begin}-${end - 1}` };
    const answer = await this.#client
      .send(new GetObjectCommand(place), { abortSignal: signal })
      .catch((error: unknown) => {
        const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
        if (!NO.has($metadata?.httpStatusCode ?? 0)) throw error;
        throw broken(`${file}: ${this.url} answered ${$metadata?.httpStatusCode} ${name}`, error);
      });
    return { body: answer.Body as Readable, total: Number(answer.ContentRange?.split("/")[1]) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#client.destroy();
    return Promise.resolve();
  }
}
