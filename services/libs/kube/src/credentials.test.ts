// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createSecureServer, type Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { selfSigned } from "@whetstone/tls/issuer";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Credentials, Lines } from "./credentials.ts";

const { key, cert } = selfSigned("localhost", { from: new Date(), days: 2 });
let server: Http2SecureServer;

beforeAll(async () => {
  server = createSecureServer({ key, cert, allowHTTP1: true }, (call, answer) => answer.end(call.httpVersion));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterAll(() => void server.close());

it("calls go over HTTP/1.1, though the API server would have HTTP/2", async () => {
  const connect = { type: "agent", connect: { rejectUnauthorized: false } } as const;
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials: Credentials = {
    namespace: undefined,
    server: origin,
    current: () => Promise.resolve({ headers: {}, connect }),
    refused: () => undefined,
  };
  using lines = new Lines(credentials);
  const { dispatcher } = await lines.line();
  const { body } = await request(origin, { dispatcher });
  expect(await body.text()).toBe("1.1");
});
