// SPDX-License-Identifier: Apache-2.0
import { FileConflictError, LimitError } from "./failure.ts";
import type { DownloadOptions, Sandbox, SandboxFile } from "./sandbox.ts";
import { checkPaths, readTar, writeTar } from "./tar.ts";

const MAX_DOWNLOAD_BYTES = 16 * 1024 * 1024;

/** @throws SandboxError, LimitError, FileConflictError */
export async function uploadInto(sandbox: Sandbox, files: readonly SandboxFile[], signal?: AbortSignal): Promise<void> {
  if (files.length === 0) return;
  const command = ["tar", "--extract", "--file=-", "--no-same-owner", `--directory=${sandbox.workspace}`];
  const { exitCode, failure, stderr } = await sandbox.exec(command, { stdin: writeTar(files), signal }).result;
  if (failure !== undefined) throw new LimitError(failure, `files could not be written: ${stderr.trim()}`);
  if (exitCode !== 0) throw new FileConflictError(`files could not be written: ${stderr.trim()}`);
}

/** @throws SandboxError, LimitError */
export async function downloadFrom(
  sandbox: Sandbox,
  paths: readonly string[],
  { maxBytes = MAX_DOWNLOAD_BYTES, signal }: DownloadOptions,
): Promise<SandboxFile[]> {
  checkPaths(paths, "paths");
  const command = ["tar", "--create", "--file=-", "--format=gnu", `--directory=${sandbox.workspace}`, "--", ...paths];
  const limits = { maxOutputBytes: 2 * maxBytes, maxTotalBytes: 2 * maxBytes };
  const execution = sandbox.exec(command, { stdin: "", signal, ...limits });
  const data: Uint8Array[] = [];
  for await (const chunk of execution.chunks()) if (chunk.stream === "stdout") data.push(chunk.data);
  const { failure } = await execution.result;
  if (failure !== undefined && failure !== "DISK") throw new LimitError(failure, "the files could not be read");
  const files = readTar(Buffer.concat(data));
  const bytes = files.reduce((total, { content }) => total + content.length, 0);
  if (bytes > maxBytes) throw new LimitError("OUTPUT", `the files have ${bytes} bytes, ${maxBytes} are allowed`);
  return files;
}
