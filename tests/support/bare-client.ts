// SPDX-License-Identifier: Apache-2.0
// A client that knows nothing of ours: the contract comes by reflection, the errors as gRPC gives them.
import {
  create,
  createFileRegistry,
  type DescMessage,
  fromBinary,
  fromJson,
  type JsonObject,
  type Message,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { filesOf } from "./reflection.ts";

export interface BareClient extends Disposable {
  readonly client: Client;
  /** Of the contract: "whetstone.jobs.v1.JobSpec". */
  message(typeName: string): DescMessage;
  /** A unary call of JobService, in JSON. */
  call(method: string, request: JsonObject): Promise<JsonObject>;
  /** The same with a request as it is, which may hold what JSON cannot. */
  send(method: string, request: Message): Promise<JsonObject>;
}

export interface Refusal {
  /** Of gRPC. */
  readonly code: number;
  readonly details: string;
  readonly violations: readonly { readonly path: string; readonly reason: string }[];
}

const SERVICE = "whetstone.jobs.v1.JobService";

export async function openBareClient(address: string): Promise<BareClient> {
  const client = new Client(address, credentials.createInsecure());
  const registry = registryOf(await filesOf(client, SERVICE));
  const service = registry.getService(SERVICE);
  if (!service) throw new Error(`reflection gave no ${SERVICE}`);
  const methodOf = (name: string) => {
    const method = service.methods.find((candidate) => candidate.name === name);
    if (!method) throw new Error(`no method ${name}`);
    return method;
  };
  const send = (name: string, request: Message): Promise<JsonObject> => {
    const method = methodOf(name);
    const serialize = (message: Message): Buffer => Buffer.from(toBinary(method.input, message));
    const deserialize = (bytes: Buffer): JsonObject =>
      toJson(method.output, fromBinary(method.output, bytes), { registry }) as JsonObject;
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(`/${service.typeName}/${name}`, serialize, deserialize, request, (error, answer) => {
        if (error) reject(error);
        else resolve(answer as JsonObject);
      });
    });
  };
  return {
    client,
    send,
    call: (name, request) => send(name, fromJson(methodOf(name).input, request)),
    message(typeName) {
      const found = registry.getMessage(typeName);
      if (!found) throw new Error(`reflection gave no ${typeName}`);
      return found;
    },
    [Symbol.dispose]: () => client.close(),
  };
}

/** What a call was refused with; violations are in the trailer that docs/errors.md describes. */
export function refusalOf(error: unknown): Refusal {
  const { code, details, metadata } = error as ServiceError;
  const [bytes] = metadata?.get("whetstone-error-bin") ?? [];
  const trailer = bytes === undefined ? {} : (JSON.parse(bytes.toString()) as { violations?: Refusal["violations"] });
  return { code, details, violations: trailer.violations ?? [] };
}

function registryOf(files: FileDescriptorProto[]) {
  const set = create(FileDescriptorSetSchema, { file: files });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, toBinary(FileDescriptorSetSchema, set)));
}
