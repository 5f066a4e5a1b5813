// SPDX-License-Identifier: Apache-2.0
import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { ProtobufTypeDefinition, Server } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";

/** Answers the server reflection protocol (v1 and v1alpha) from the generated descriptors: `grpcurl` works without files. */
export function addReflection(server: Server, services: readonly DescService[]): void {
  const files = new Map<string, Buffer>();
  for (const service of services) collect(service.file, files);
  const definition: ProtobufTypeDefinition = {
    format: "Protocol Buffer 3 DescriptorProto",
    type: {},
    fileDescriptorProtos: [...files.values()],
  };
  const names = services.map(({ typeName }) => typeName);
  new ReflectionService({ files: definition } as never, { services: names }).addToServer(server);
}

function collect(file: DescFile, files: Map<string, Buffer>): void {
  if (files.has(file.name)) return;
  files.set(file.name, Buffer.from(toBinary(FileDescriptorProtoSchema, file.proto)));
  for (const dependency of file.dependencies) collect(dependency, files);
}
