// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import type { S3Client } from "@aws-sdk/client-s3";
import type { StoreLocation } from "./location.ts";

export interface ClientOptions {
  /** Without a byte for so long a connection counts as broken. */
  readonly quietMs: number;
  /** Requests in all, the first included. Default: the SDK's own, 3. */
  readonly attempts?: number;
}

/** Endpoint, region and credentials are found as every S3 client finds them. The SDK is loaded now, and not before. */
export async function openClient(
  { style, env }: StoreLocation,
  { quietMs, attempts }: ClientOptions,
): Promise<S3Client> {
  const [{ S3Client }, { NodeHttpHandler }] = await Promise.all([
    import("@aws-sdk/client-s3"),
    import("@smithy/node-http-handler"),
  ]);
  const isOwn = Boolean(env["AWS_ENDPOINT_URL_S3"] ?? env["AWS_ENDPOINT_URL"]);
  const authorities = env["AWS_CA_BUNDLE"];
  const agent = authorities ? { httpsAgent: new Agent({ ca: readFileSync(authorities), keepAlive: true }) } : {};
  return new S3Client({
    region: env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"] ?? "us-east-1",
    forcePathStyle: style ? style === "path" : isOwn,
    // Whoever reads checks against a digest anyway, and a part of a file has no checksum of its own.
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: new NodeHttpHandler({ connectionTimeout: 5_000, socketTimeout: quietMs, ...agent }),
    ...(attempts === undefined ? {} : { maxAttempts: attempts }),
  });
}
