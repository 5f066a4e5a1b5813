// SPDX-License-Identifier: Apache-2.0
// Server reflection as any stock tool speaks it, from the published proto file.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import {
  type Client,
  type ClientDuplexStream,
  loadPackageDefinition,
  type ServiceClientConstructor,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

interface ReflectionAnswer {
  listServicesResponse?: { service: { name: string }[] };
  fileDescriptorResponse?: { fileDescriptorProto: Buffer[] };
  errorResponse?: { errorMessage: string };
}

export async function listServices(client: Client): Promise<string[]> {
  const answer = await ask(client, { listServices: "*" });
  return (answer.listServicesResponse?.service ?? []).map((service) => service.name);
}

/** The file of a symbol and all that it imports, imports first. */
export async function filesOf(client: Client, symbol: string): Promise<FileDescriptorProto[]> {
  const files = new Map<string, FileDescriptorProto>();
  const first = await ask(client, { fileContainingSymbol: symbol });
  await collect(client, first, files);
  return [...files.values()];
}

async function collect(
  client: Client,
  answer: ReflectionAnswer,
  files: Map<string, FileDescriptorProto>,
): Promise<void> {
  for (const bytes of answer.fileDescriptorResponse?.fileDescriptorProto ?? []) {
    const file = fromBinary(FileDescriptorProtoSchema, bytes);
    if (files.has(file.name)) continue;
    for (const name of file.dependency)
      if (!files.has(name)) await collect(client, await ask(client, { fileByFilename: name }), files);
    files.set(file.name, file);
  }
}

function ask(client: Client, request: object): Promise<ReflectionAnswer> {
  return new Promise((resolve, reject) => {
    const { path, requestSerialize, responseDeserialize } = definition();
    const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize) as ClientDuplexStream<
      object,
      ReflectionAnswer
    >;
    call.on("error", reject);
    call.once("data", (answer: ReflectionAnswer) => {
      call.end();
      if (answer.errorResponse) reject(new Error(answer.errorResponse.errorMessage));
      else resolve(answer);
    });
    call.write(request);
  });
}

function definition() {
  const folder = join(dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json")), "build/proto");
  const loaded = loadPackageDefinition(loadSync("grpc/reflection/v1/reflection.proto", { includeDirs: [folder] }));
  const reflection = (
    loaded as unknown as { grpc: { reflection: { v1: { ServerReflection: ServiceClientConstructor } } } }
  ).grpc.reflection.v1;
  const method = reflection.ServerReflection.service["ServerReflectionInfo"];
  if (!method) throw new Error("the published proto file has no ServerReflectionInfo");
  return method;
}
