// SPDX-License-Identifier: Apache-2.0
import { Client, credentials } from "@grpc/grpc-js";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { expect, it, vi } from "vitest";
import { implement, startServer } from "./index.ts";

// What grpcurl and Kubernetes probes see, byte by byte, without our own client.

const raw = (bytes: Buffer): Buffer => bytes;

async function withServer<T>(use: (client: Client, close: () => Promise<void>) => Promise<T>): Promise<T> {
  const services = [implement(JobService, {})];
  await using server = await startServer({ host: "127.0.0.1", port: 0, services, logger: silentLogger });
  const client = new Client(server.address, credentials.createInsecure());
  try {
    return await use(client, () => server.close(2_000));
  } finally {
    client.close();
  }
}

/** A one-field request of the reflection service: `list_services` is 7, `file_containing_symbol` is 4. */
async function reflect(client: Client, field: number, text: string): Promise<string> {
  const request = Buffer.concat([Buffer.from([(field << 3) | 2, text.length]), Buffer.from(text)]);
  const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const call = client.makeBidiStreamRequest(path, raw, raw);
  call.end(request);
  for await (const answer of call as AsyncIterable<Buffer>) return answer.toString("latin1");
  return "";
}

it("answers reflection: services by name, files with all they import", async () => {
  const warn = vi.spyOn(console, "warn");
  await withServer(async (client) => {
    expect(await reflect(client, 7, "*")).toContain("whetstone.jobs.v1.JobService");
    const file = await reflect(client, 4, "whetstone.jobs.v1.JobService");
    expect(file).toContain("whetstone/jobs/v1/jobs.proto");
    expect(file).toContain("whetstone/types/v1/types.proto");
    expect(file).toContain("SubmitJobRequest");
  });
  expect(warn).not.toHaveBeenCalled(); // It warns of references it cannot resolve.
});

it("answers health checks, for the server and by service", async () => {
  const check = (client: Client, service: string) =>
    new Promise<Buffer>((resolve, reject) => {
      const request = Buffer.concat([Buffer.from([0x0a, service.length]), Buffer.from(service)]);
      client.makeUnaryRequest("/grpc.health.v1.Health/Check", raw, raw, request, (error, answer) => {
        if (error === null) resolve(answer as Buffer);
        else reject(error);
      });
    });
  await withServer(async (client) => {
    expect([...(await check(client, ""))]).toEqual([0x08, 1]); // status = SERVING
    expect([...(await check(client, JobService.typeName))]).toEqual([0x08, 1]);
    await expect(check(client, "unknown")).rejects.toThrow(/NOT_FOUND/);
  });
});
