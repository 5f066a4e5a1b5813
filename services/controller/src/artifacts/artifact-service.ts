// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { requireRules } from "@whetstone/contract/check";
import { artifactDigest, type ArtifactKindName, ConfigError, WhetstoneError } from "@whetstone/core";
import {
  AbortPushRequestSchema,
  ArtifactKind,
  type ArtifactSchema,
  ArtifactService,
  BeginPushRequestSchema,
  type FinishPushRequest,
  FinishPushRequestSchema,
  type FinishPushResponseSchema,
  type GetArtifactRequest,
  GetArtifactRequestSchema,
  ListArtifactsRequestSchema,
  type ReadFileRequest,
  ReadFileRequestSchema,
  RemoveArtifactRequestSchema,
  WriteChunkRequestSchema,
} from "@whetstone/proto/artifacts/v1/artifacts";
import { type CallContext, implement, type ServiceImplementation } from "@whetstone/rpc";
import type { Artifacts } from "./artifacts.ts";
import { kindFault } from "./kind-fault.ts";
import type { StoredFile } from "./layout.ts";

const READ_BYTES = 1024 * 1024;
/** Bytes between two reports of how far the verification is. */
const PROGRESS_BYTES = 64 * 1024 * 1024;
const JOBS_NAMED = 20;
const BY_NAME: ReadonlySet<string> = new Set(["client", "console"]);

const KINDS = {
  [ArtifactKind.MODELS]: "models",
  [ArtifactKind.DATASETS]: "datasets",
  [ArtifactKind.TASKS]: "tasks",
} as const satisfies Record<Exclude<ArtifactKind, ArtifactKind.UNSPECIFIED>, ArtifactKindName>;

type ArtifactInit = MessageInitShape<typeof ArtifactSchema>;

export function artifactService(artifacts: Artifacts): ServiceImplementation {
  const { pushes } = artifacts;
  return implement(ArtifactService, {
    beginPush: async (request) => {
      requireRules(BeginPushRequestSchema, request);
      const files = request.files.map(storedFile);
      await refuse(artifacts, { ...request, digest: artifactDigest(files) }, files);
      await artifacts.sweep();
      const { digest, offsets, complete } = await pushes.begin(files);
      return { digest, offsets: offsets.map(BigInt), complete };
    },
    writeChunk: async (request) => {
      requireRules(WriteChunkRequestSchema, request);
      const { digest, path, offset, content } = request;
      return { offset: BigInt(await pushes.write(digest, path, Number(offset), content)) };
    },
    finishPush: (request) => finish(artifacts, request),
    abortPush: async (request) => {
      requireRules(AbortPushRequestSchema, request);
      await pushes.abort(request.digest);
      return {};
    },
    listArtifacts: async (request) => {
      requireRules(ListArtifactsRequestSchema, request);
      const { kind } = request;
      const found = (await artifacts.names(kindName(kind))).map((name) => described(artifacts, kind, name));
      return { artifacts: (await Promise.all(found)).map((one) => ({ ...one, files: [] })) };
    },
    getArtifact: (request, context) => get(artifacts, request, context),
    readFile: (request) => read(artifacts, request),
    removeArtifact: async (request) => {
      requireRules(RemoveArtifactRequestSchema, request);
      const { digest, freed, jobs } = await artifacts.remove(kindName(request.kind), request.name);
      return { digest, freed: BigInt(freed), jobs: jobs.slice(0, JOBS_NAMED) };
    },
  });
}

type Naming = Pick<FinishPushRequest, "kind" | "name" | "digest" | "replace">;

async function refuse(artifacts: Artifacts, naming: Naming, files: readonly StoredFile[]): Promise<void> {
  const kind = kindName(naming.kind);
  await artifacts.checkName(kind, naming.name, naming.digest, naming.replace);
  const fault = files.length > 0 ? kindFault(kind, files) : undefined;
  if (fault !== undefined) throw new ConfigError([{ path: "files", reason: fault }]);
}

async function* finish(
  artifacts: Artifacts,
  request: FinishPushRequest,
): AsyncGenerator<MessageInitShape<typeof FinishPushResponseSchema>> {
  requireRules(FinishPushRequestSchema, request);
  const { digest, name } = request;
  const { layout, pushes } = artifacts;
  const manifest = (await artifacts.manifest(digest)) ?? (await layout.manifest(layout.push(digest)));
  await refuse(artifacts, request, manifest?.files ?? []);
  let told = 0;
  for await (const verified of pushes.finish(digest)) {
    if (verified - told < PROGRESS_BYTES) continue;
    told = verified;
    yield { verified: BigInt(verified) };
  }
  await artifacts.setName(kindName(request.kind), name, digest, request.replace);
  const artifact = await described(artifacts, request.kind, name);
  yield { verified: artifact.size ?? 0n, artifact };
}

/** Our own parts know digests, from jobs and sessions, and no names. */
async function get(
  artifacts: Artifacts,
  request: GetArtifactRequest,
  { caller }: CallContext,
): Promise<{ artifact: ArtifactInit }> {
  requireRules(GetArtifactRequestSchema, request);
  const { of } = request;
  if (of.case !== "name") return { artifact: await byDigest(artifacts, of.value ?? "") };
  if (caller !== undefined && !BY_NAME.has(caller))
    throw new WhetstoneError("PERMISSION_DENIED", `role ${caller} asks by digest`);
  return { artifact: await described(artifacts, of.value.kind, of.value.name) };
}

async function* read(
  artifacts: Artifacts,
  request: ReadFileRequest,
): AsyncGenerator<{ content: Uint8Array<ArrayBuffer> }> {
  requireRules(ReadFileRequestSchema, request);
  const { digest, path, offset } = request;
  const manifest = await artifacts.manifest(digest);
  if (!manifest) throw absent(digest);
  // Only what the manifest names is opened: its paths were checked when they came.
  if (!manifest.files.some((file) => file.path === path))
    throw new WhetstoneError("NOT_FOUND", `sha256:${digest} has no file "${path}"`);
  const place = join(artifacts.layout.files(digest), path);
  for await (const chunk of createReadStream(place, { start: Number(offset), highWaterMark: READ_BYTES }))
    yield { content: chunk as Uint8Array<ArrayBuffer> };
}

async function described(artifacts: Artifacts, kind: ArtifactKind, name: string): Promise<ArtifactInit> {
  const { digest, createdAt } = await artifacts.get(kindName(kind), name);
  return {
    ...(await byDigest(artifacts, digest)),
    kind,
    name,
    createdAt: timestampFromDate(new Date(createdAt)),
  };
}

async function byDigest(artifacts: Artifacts, digest: string): Promise<ArtifactInit> {
  const manifest = await artifacts.manifest(digest);
  if (!manifest) throw absent(digest);
  const files = manifest.files.map(({ path, size, sha256 }) => ({ path, size: BigInt(size), sha256 }));
  const size = files.reduce((sum, file) => sum + file.size, 0n);
  return { digest, files, size, path: artifacts.layout.files(digest) };
}

function absent(digest: string): WhetstoneError {
  return new WhetstoneError("NOT_FOUND", `sha256:${digest} is not in the store: push it again`);
}

function kindName(kind: ArtifactKind): ArtifactKindName {
  if (kind !== ArtifactKind.UNSPECIFIED) return KINDS[kind];
  throw new WhetstoneError("INVALID_ARGUMENT", "kind: is required");
}

function storedFile({ path, size, sha256 }: { path: string; size: bigint; sha256: string }): StoredFile {
  return { path, size: Number(size), sha256 };
}
