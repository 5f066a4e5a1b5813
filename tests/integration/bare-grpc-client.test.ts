// SPDX-License-Identifier: Apache-2.0
// A client that knows nothing of ours: it learns the contract by reflection and submits a job.
import {
  fromBinary,
  fromJson,
  createFileRegistry,
  create,
  toBinary,
  toJson,
  type JsonObject,
} from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Client, credentials } from "@grpc/grpc-js";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";
import { listServices, filesOf } from "../support/reflection.ts";

describe("a bare gRPC client", () => {
  let runtime: LocalRuntime;
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(() => runtime[Symbol.asyncDispose](), 30_000);

  it("sees JobService by reflection, submits a job with it, and the job runs to its end", async () => {
    const client = new Client(runtime.address("controller"), credentials.createInsecure());
    expect(await listServices(client)).toContain("whetstone.jobs.v1.JobService");
    const call = callerOf(client, await filesOf(client, "whetstone.jobs.v1.JobService"));
    await call("SubmitJob", { spec: smallJob("bare", runtime.model) });
    await waitFor(async () => phase(await call("GetJob", { name: "bare" })) === "JOB_PHASE_SUCCEEDED", {
      timeoutMs: 60_000,
    });
    client.close();
  }, 90_000);
});

/** Unary calls in JSON, by nothing but the descriptors that the server gave. */
function callerOf(client: Client, files: FileDescriptorProto[]) {
  const set = create(FileDescriptorSetSchema, { file: files });
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, toBinary(FileDescriptorSetSchema, set)));
  const service = registry.getService("whetstone.jobs.v1.JobService");
  if (!service) throw new Error("reflection gave no JobService");
  return (name: string, request: JsonObject): Promise<JsonObject> => {
    const method = service.methods.find((candidate) => candidate.name === name);
    if (!method) throw new Error(`no method ${name}`);
    const serialize = (json: JsonObject): Buffer => Buffer.from(toBinary(method.input, fromJson(method.input, json)));
    const deserialize = (bytes: Buffer): JsonObject =>
      toJson(method.output, fromBinary(method.output, bytes), { registry }) as JsonObject;
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(`/${service.typeName}/${name}`, serialize, deserialize, request, (error, answer) => {
        if (error) reject(error);
        else resolve(answer as JsonObject);
      });
    });
  };
}

function phase(answer: JsonObject): unknown {
  return ((answer["job"] as JsonObject)["status"] as JsonObject)["phase"];
}
