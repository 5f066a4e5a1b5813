// SPDX-License-Identifier: Apache-2.0
/** `whet models|datasets|tasks push|pull|ls|rm`: what an installation keeps, on this machine and on a cluster alike. */
import { resolve } from "node:path";

import { toJson } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type ArtifactKindName, artifactText } from "@whetstone/core";
import { type Artifact, ArtifactSchema } from "@whetstone/proto/artifacts/v1/artifacts";

import { type ArtifactClient, artifactClient, KINDS } from "../artifacts/artifact-client.ts";
import { datasetFiles } from "../artifacts/dataset-files.ts";
import { listFiles } from "../artifacts/local-files.ts";
import { pullArtifact } from "../artifacts/pull.ts";
import { type PushProgress, pushFiles } from "../artifacts/push.ts";
import { CliError } from "../cli-error.ts";
import { formatBytes, formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

interface ArtifactName {
  readonly kind: ArtifactKindName;
  readonly name: string;
}

export interface PushFlags extends CommonOptions {
  readonly replace?: boolean;
  readonly split?: string;
}

export async function push(
  { kind, name, path }: ArtifactName & { readonly path: string | undefined },
  flags: PushFlags,
  context: CommandContext,
): Promise<void> {
  const { environment, signal, terminal } = context;
  await using stack = new AsyncDisposableStack();
  const files =
    kind === "datasets"
      ? await datasetFiles({ name, path, split: flags.split }, environment, stack)
      : await listFiles(resolve(path ?? ""));
  const client = stack.use(connect(flags, context));
  const live = terminal.live();
  const onProgress = ({ doing, bytes, total }: PushProgress): void =>
    live.draw([`${doing} ${name}: ${formatBytes(bytes)} of ${formatBytes(total)}`]);
  const target = { kind: KINDS[kind], name, replace: flags.replace === true };
  const { artifact, sent } = await pushFiles(client, target, files, { onProgress, signal });
  live.draw([]);
  live.done();
  const reference = artifactText({ kind, name, digest: artifact.digest });
  if (flags.json === true) return terminal.json({ ...jsonOf(artifact), reference, sent });
  const size = Number(artifact.size);
  const there = sent < size ? `, ${formatBytes(size - sent)} were there already` : "";
  terminal.line(`${name}: ${artifact.files.length} files, ${formatBytes(size)}${there}`);
  terminal.line(`name it in a job as ${artifactText({ kind, name })}, or for good as\n${reference}`);
}

export async function pull(
  { kind, name, folder }: ArtifactName & { readonly folder: string },
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  await using client = connect(flags, context);
  const artifact = await found(client, kind, name);
  const live = context.terminal.live();
  const total = formatBytes(Number(artifact.size));
  const onBytes = (bytes: number): void => live.draw([`receiving ${name}: ${formatBytes(bytes)} of ${total}`]);
  await pullArtifact(client, artifact, folder, { onBytes, signal: context.signal });
  live.draw([]);
  live.done();
  if (flags.json === true) return context.terminal.json({ ...jsonOf(artifact), folder });
  context.terminal.line(`${name}: ${artifact.files.length} files, ${total}, in ${folder}`);
}

export async function list(kind: ArtifactKindName, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const { artifacts } = await client.listArtifacts({ kind: KINDS[kind] });
  if (flags.json === true) return context.terminal.json({ [kind]: artifacts.map(jsonOf) });
  if (artifacts.length === 0) return context.terminal.line(`no ${kind} yet: push some with \`whet ${kind} push\``);
  const rows = artifacts.map((one) => [
    one.name,
    formatBytes(Number(one.size)),
    one.createdAt ? timestampDate(one.createdAt).toISOString().slice(0, 16).replace("T", " ") : "",
    one.digest.slice(0, 12),
  ]);
  for (const line of formatTable(["NAME", "SIZE", "PUSHED", "DIGEST"], rows)) context.terminal.line(line);
}

export async function remove(
  { kind, name }: ArtifactName,
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  await using client = connect(flags, context);
  const { digest, freed, jobs } = await client.removeArtifact({ kind: KINDS[kind], name });
  if (flags.json === true) return context.terminal.json({ name, digest, freed: Number(freed), jobs });
  if (freed > 0n) return context.terminal.line(`${name}: removed, ${formatBytes(Number(freed))} are free`);
  const who = jobs.length > 0 ? `${jobs.join(", ")} (\`whet jobs delete\`)` : "another name";
  context.terminal.line(`${name}: the name is gone; the files stay as long as these have them: ${who}`);
}

function connect(flags: CommonOptions, { environment }: CommandContext): ArtifactClient {
  return artifactClient(flags.data, environment);
}

async function found(client: ArtifactClient, kind: ArtifactKindName, name: string): Promise<Artifact> {
  const { artifact } = await client.getArtifact({ of: { case: "name", value: { kind: KINDS[kind], name } } });
  if (artifact) return artifact;
  throw new CliError("CONTRACT_VIOLATION", "the controller answered without the artifact");
}

function jsonOf(artifact: Artifact): Record<string, unknown> {
  const json = toJson(ArtifactSchema, artifact) as Record<string, unknown>;
  return { ...json, size: Number(artifact.size) };
}
